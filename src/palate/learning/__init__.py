"""Learning from users' data: train a model, adapt one to new users."""

from palate.learning.choices import Choices
from palate.learning.encoding import encode_choice, encode_choices, encode_pair
from palate.learning.fitting import Lora, load_base
from palate.learning.heads import UserHeads
from palate.learning.low_rank import PReF, next_question
from palate.learning.overlap import refuse_overlap, refuse_trained
from palate.learning.p_dpo import PreferenceOptions, train_p_dpo
from palate.learning.personal import METHODS, PersonalModel, fit, gather, method_of
from palate.learning.personal_policy import P_DPO, STATE, USERS, PersonalPolicy, is_policy
from palate.learning.planner import encode_plan
from palate.learning.policy_users import FromChoices, Joined, Users, adapt_policy
from palate.learning.recipes import BaseTask, TrainedModel, saving, train_classifier
from palate.learning.states import UserStates, take
from palate.learning.training import adapt, rows_to_learn, train
