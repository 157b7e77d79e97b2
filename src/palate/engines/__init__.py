"""Models, run by this process or by an endpoint."""

from palate.engines.chat_endpoint import Ask, ChatEndpoint, EndpointLanguageModel, SamplingRequest
from palate.engines.chat_template import HELLO, ChatTemplate, ids_of
from palate.engines.embedders import Embedder, Embedding, EmbeddingEndpoint, even_parts, unit_length
from palate.engines.endpoint_fields import ExtraFields, reply_limit
from palate.engines.endpoint_scores import (
    FORMATS,
    IN_IDS,
    WRITTEN,
    Outputs,
    PromptLogprobs,
    RewardInput,
    read_form,
)
from palate.engines.http_client import ClientParts, HttpClient
from palate.engines.http_ledger import Ledger
from palate.engines.http_limits import Clock
from palate.engines.http_replies import Reply, read_completion
from palate.engines.http_requests import (
    FIELD_OPTIONS,
    NO_TEMPERATURE,
    SHARED,
    HttpOutcome,
    HttpRequest,
    HttpSettings,
    NotSent,
    ask_groups,
    body_of,
    canonical,
    read_endpoint,
    refuse_endpoint_options,
)
from palate.engines.http_transport import HttpResponse
from palate.engines.language_model import (
    NO_LIMIT,
    TOO_LONG,
    Ids,
    LanguageModel,
    LocalLanguageModel,
    Sampling,
)
from palate.engines.local_decoding import (
    Continuation,
    Member,
    ModelEnsemble,
    draw,
    generate,
    sample,
    stream,
)
from palate.engines.local_forward import TokenSpan, is_out_of_memory, pad, within_memory
from palate.engines.local_loading import LOGIT_ROWS, ReadMode, ValidIds
from palate.engines.local_model import LocalModel, fastest_tokens
from palate.engines.local_rows import KVRows, begin_rows
from palate.engines.local_threads import FairLock, map_ordered
from palate.engines.local_tree import Node, build_tree
from palate.engines.reader import Reader, RemoteReader, read_as, vocabulary_of, window_of
from palate.engines.reply_cache import ReplyCache, RequestFile, keep_replies
from palate.engines.template_source import decoded, special_tokens
from palate.records import Encoded
