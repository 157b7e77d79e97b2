"""Twenty questions and the post that fits each, written side by side in several scripts.

    python tests/retrieval/searches.py

prints how often the post that fits comes first, by words alone and as palate searches.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NamedTuple

import bm25s

from palate.retrieval import Ordering, Ranked, nearest_first

ENGLISH = """
Which tea suits the evening? | Smoky black tea is all I drink after work, brewed for five minutes.
How long should bread dough rise? | My bread only turns out well when the dough rests overnight.
How often should I oil a bicycle chain? | I wash the chain of my bicycle after each tour in rain.
When do tomatoes need water? | The tomatoes on our balcony were ripe in August and very sweet.
Which strings suit an old guitar? | My grandfather's guitar still sounds warm, and I play it daily.
What should my cat eat? | Our cat leaves every kind of dry food and begs for fish.
What helps against back pain? | Since I sit all day my back hurts, and only swimming eases it.
Are night trains comfortable? | I took the night train to Vienna and slept better than at home.
Which lens is good for portraits? | I photograph people with a single lens that my brother sold me.
How fine should coffee be ground? | I grind my coffee by hand, because the smell wakes me up.
When are running shoes worn out? | My running shoes have a hole since the marathon.
How can I learn Spanish quickly? | Every morning I learn ten words of Spanish on the bus.
How does a baby sleep through? | Our baby wakes three times a night and wants to be carried.
Why do the leaves of my orchid fall? | The orchid on the window sill has lost its flowers again.
Which opening should I play in chess? | At the club we play chess until midnight, and I mostly lose.
Why is my phone battery empty so soon? | I carry a second battery, since my phone dies by noon.
What colour should the kitchen be? | We painted the kitchen green, a colour that nobody else liked.
How do I cook fish soup? | Grandmother's fish soup has saffron and too much garlic.
Is the museum worth a visit with children? | In the museum my children only saw the dinosaurs.
How do I save on heating? | We turned the heating down and wear jumpers all winter.
"""
CHINESE = """
晚上喝什么茶好？ | 下班以后我只喝烟熏红茶，要泡五分钟才够味。
面包的面团要发酵多久？ | 我的面包只有让面团过夜发酵才会好吃。
自行车的链条多久上一次油？ | 每次下雨天骑车回来，我都会清洗自行车链条。
番茄什么时候需要浇水？ | 我们阳台上的番茄八月就熟了，非常甜。
旧吉他配什么琴弦好？ | 爷爷留下的吉他声音还是很温暖，我每天都弹。
我的猫应该吃什么？ | 我家的猫什么干粮都不碰，只想要鱼。
背痛怎么办才好？ | 因为整天坐着，我的背很痛，只有游泳能缓解。
夜间火车舒服吗？ | 我坐夜间火车去维也纳，睡得比在家里还好。
拍人像用哪种镜头？ | 我拍人只用一个镜头，是哥哥卖给我的。
咖啡应该磨多细？ | 我用手磨咖啡，因为那个香味让我清醒。
跑鞋什么时候算磨坏了？ | 我的跑鞋破了一个洞，可是我穿着它跑完了马拉松。
怎样才能很快学会西班牙语？ | 每天早上我在公共汽车上学十个西班牙语单词。
怎么让宝宝睡整夜？ | 我们的宝宝一夜醒三次，总要人抱着。
为什么我的兰花掉叶子？ | 窗台上的兰花又把花都掉光了。
下象棋应该用什么开局？ | 在俱乐部我们下象棋到半夜，我多半会输。
手机电池为什么这么快没电？ | 我带着第二块电池，因为手机到中午就没电了。
厨房刷什么颜色好？ | 我们把厨房刷成了绿色，别人都不喜欢这个颜色。
鱼汤怎么做？ | 奶奶做的鱼汤里有藏红花，还有太多的蒜。
带孩子去博物馆值得吗？ | 在博物馆里我的孩子只想看恐龙。
怎么节省暖气费？ | 我们把暖气调低，整个冬天都穿毛衣。
"""
JAPANESE = """
夜にはどのお茶が合いますか。 | 仕事の後は燻製の紅茶しか飲みません。お茶は五分蒸らします。
パンの生地はどのくらい発酵させますか。 | 私のパンは生地を一晩寝かせたときだけうまくいく。
自転車のチェーンにはどのくらい油をさしますか。 | 雨の中を走ったら、必ず自転車のチェーンを洗う。
トマトにはいつ水をやりますか。 | うちのベランダのトマトは八月に熟して、とても甘かった。
古いギターにはどの弦が合いますか。 | 祖父のギターは今も温かい音がして、毎日弾いている。
うちの猫に何を食べさせればいいですか。 | うちの猫はどんな乾いた餌も残して、魚をねだる。
腰の痛みには何が効きますか。 | 一日中座っているので腰が痛く、泳ぐと楽になる。
夜行列車は快適ですか。 | ウィーンまで夜行列車に乗り、家よりよく眠れた。
人物写真にはどのレンズがいいですか。 | 兄が売ってくれたレンズ一本だけで人を撮っている。
コーヒーはどのくらい細かく挽きますか。 | 香りで目が覚めるので、コーヒーは手で挽いている。
ランニングシューズはいつ寿命ですか。 | ランニングシューズに穴があるが、それでマラソンを完走した。
スペイン語を早く覚えるにはどうすればいいですか。 | 毎朝バスの中でスペイン語の単語を十個覚える。
赤ちゃんが朝まで眠るにはどうすればいいですか。 | うちの赤ちゃんは夜に三回起きて、抱っこをせがむ。
蘭の葉が落ちるのはなぜですか。 | 窓辺の蘭はまた花を落としてしまった。
将棋ではどの戦法を選べばいいですか。 | クラブで夜中まで将棋を指すが、たいてい負ける。
携帯の電池がすぐ切れるのはなぜですか。 | 携帯が昼には切れるので、電池をもう一つ持ち歩く。
台所は何色に塗ればいいですか。 | 台所を緑に塗ったが、その色はだれも気に入らなかった。
魚のスープはどう作りますか。 | 祖母の魚のスープはサフラン入りで、にんにくが多すぎる。
子どもと博物館に行く価値はありますか。 | 博物館で子どもは恐竜しか見たがらなかった。
暖房費を節約するにはどうすればいいですか。 | 暖房を弱くして、冬中セーターを着ている。
"""
THAI = """
ตอนเย็นควรดื่มชาอะไรดี | หลังเลิกงานฉันดื่มแต่ชาดำรมควัน ต้องชงห้านาที
แป้งขนมปังควรหมักนานเท่าไร | ขนมปังของฉันอร่อยก็ต่อเมื่อพักแป้งไว้ข้ามคืน
ควรหยอดน้ำมันโซ่จักรยานบ่อยแค่ไหน | ฉันล้างโซ่จักรยานทุกครั้งหลังปั่นกลางฝน
มะเขือเทศต้องรดน้ำเมื่อไร | มะเขือเทศที่ระเบียงของเราสุกในเดือนสิงหาคมและหวานมาก
กีตาร์เก่าควรใช้สายแบบไหน | กีตาร์ของคุณปู่ยังเสียงอบอุ่นและฉันเล่นทุกวัน
แมวของฉันควรกินอะไร | แมวบ้านเราไม่ยอมกินอาหารเม็ดและขอแต่ปลา
ปวดหลังทำอย่างไรดี | ฉันนั่งทั้งวันจนปวดหลัง มีแต่ว่ายน้ำที่ช่วยได้
รถไฟกลางคืนนั่งสบายไหม | ฉันนั่งรถไฟกลางคืนไปเวียนนาและหลับดีกว่าที่บ้าน
ถ่ายภาพบุคคลใช้เลนส์อะไรดี | ฉันถ่ายคนด้วยเลนส์ตัวเดียวที่พี่ชายขายให้
กาแฟควรบดละเอียดแค่ไหน | ฉันบดกาแฟด้วยมือเพราะกลิ่นทำให้ตื่น
รองเท้าวิ่งหมดสภาพเมื่อไร | รองเท้าวิ่งของฉันเป็นรูแต่ฉันก็วิ่งมาราธอนจบ
จะเรียนภาษาสเปนให้เร็วได้อย่างไร | ทุกเช้าฉันท่องคำภาษาสเปนสิบคำบนรถเมล์
ทำอย่างไรให้ทารกหลับทั้งคืน | ทารกของเราตื่นคืนละสามครั้งและอยากให้อุ้ม
ทำไมใบกล้วยไม้ของฉันร่วง | กล้วยไม้ที่ขอบหน้าต่างดอกร่วงหมดอีกแล้ว
เล่นหมากรุกควรเปิดเกมแบบไหน | ที่ชมรมเราเล่นหมากรุกถึงเที่ยงคืนและฉันมักแพ้
ทำไมแบตเตอรี่โทรศัพท์หมดเร็ว | ฉันพกแบตเตอรี่อีกก้อนเพราะโทรศัพท์ดับตอนเที่ยง
ห้องครัวควรทาสีอะไร | เราทาห้องครัวเป็นสีเขียวซึ่งไม่มีใครชอบ
ซุปปลาทำอย่างไร | ซุปปลาของคุณย่าใส่หญ้าฝรั่นและกระเทียมมากเกินไป
พาเด็กไปพิพิธภัณฑ์คุ้มไหม | ในพิพิธภัณฑ์ลูกของฉันอยากดูแต่ไดโนเสาร์
จะประหยัดค่าทำความร้อนได้อย่างไร | เราลดเครื่องทำความร้อนและใส่เสื้อหนาวทั้งฤดูหนาว
"""
KOREAN = """
저녁에는 어떤 차가 좋을까요? | 퇴근하면 훈제 홍차만 마시는데 차를 오 분 동안 우려요.
빵 반죽은 얼마나 발효해야 하나요? | 내 빵은 반죽을 하룻밤 두어야만 잘 나온다.
자전거 체인에 기름을 얼마나 자주 칠해야 하나요? | 비 오는 날 타고 나면 자전거의 체인을 꼭 씻는다.
토마토는 언제 물을 줘야 하나요? | 우리 발코니의 토마토가 팔월에 익었는데 아주 달았다.
오래된 기타에는 어떤 줄이 맞나요? | 할아버지의 기타는 아직 소리가 따뜻해서 매일 친다.
고양이에게 무엇을 먹여야 하나요? | 우리 고양이는 사료를 다 남기고 생선만 조른다.
허리가 아플 때 무엇이 좋나요? | 하루 종일 앉아 있어서 허리를 다쳤고 수영만 도움이 된다.
야간열차는 편한가요? | 빈까지 야간열차를 탔는데 집보다 잘 잤다.
인물 사진에는 어떤 렌즈가 좋나요? | 형이 판 렌즈 하나로만 사람들을 찍는다.
커피는 얼마나 곱게 갈아야 하나요? | 향기에 잠이 깨서 커피를 손으로 간다.
운동화는 언제 수명이 다하나요? | 내 운동화에 구멍이 났지만 마라톤을 완주했다.
스페인어를 빨리 배우려면 어떻게 하나요? | 아침마다 버스에서 스페인어의 단어를 열 개 외운다.
아기가 밤새 자게 하려면 어떻게 하나요? | 우리 아기는 하룻밤에 세 번 깨서 안아 달라고 한다.
난초의 잎이 왜 떨어지나요? | 창가의 난초가 또 꽃을 다 잃었다.
체스에서는 어떤 오프닝이 좋나요? | 동호회에서 자정까지 체스를 두는데 대개 진다.
휴대폰 배터리가 왜 빨리 닳나요? | 휴대폰이 정오면 꺼져서 배터리를 하나 더 들고 다닌다.
부엌을 무슨 색으로 칠할까요? | 우리는 부엌에 초록을 칠했는데 아무도 그 색을 좋아하지 않았다.
생선국은 어떻게 끓이나요? | 할머니의 생선국에는 사프란과 마늘이 너무 많다.
아이들과 박물관에 갈 만한가요? | 박물관에서 아이들은 공룡만 보려고 했다.
난방비를 어떻게 아끼나요? | 난방을 낮추고 겨울 내내 스웨터를 입는다.
"""
MIXED = """
我的iPhone电池为什么没电？ | 我带着充电宝，因为iPhone到中午就关机。
用Python怎么读CSV文件？ | 上课时老师只教Python，我写了三个小程序。
Spotify上有什么爵士乐？ | 我睡前用Spotify听音乐，一般是老歌。
哪种Arabica咖啡豆好？ | 我喜欢Arabica的酸味，每天早上磨豆子。
LEGO适合几岁的孩子？ | 我儿子把LEGO撒了一地，我踩到过两次。
Excel表格怎么求和？ | 办公室里大家都用Excel记账，我也是。
Nikon的镜头值得买吗？ | 爸爸送我一台旧的Nikon，拍照很清楚。
去Paris要几天？ | 我们在Paris住了一周，每天吃面包。
Marathon之前吃什么？ | 我跑完了第一个Marathon，脚很疼。
怎么学Java最快？ | 大学里学过Java，现在都忘了。
KTVで何を歌えばいい？ | 友だちとKTVに行って、朝まで歌った。
GitHubの使い方は？ | 自分のコードはGitHubに置いている。
Kindleは目に優しい？ | 電車ではKindleで小説を読む。
Bluetoothのイヤホンは切れる？ | Bluetoothは便利だが、すぐ電池がなくなる。
YouTubeで料理を学べる？ | 夕飯の前にYouTubeで作り方を見る。
USBメモリの寿命は？ | 古い写真はUSBに入れて引き出しにある。
ควรเรียน Photoshop ที่ไหน | ฉันใช้ Photoshop แต่งภาพงานแต่งของเพื่อน
Netflix มีหนังอะไรดี | วันหยุดฉันดู Netflix กับน้องสาวทั้งวัน
เล่น Pokemon อย่างไร | ลูกชายสะสมการ์ด Pokemon ไว้ในกล่อง
ซื้อ Honda มือสองดีไหม | พ่อขับ Honda คันเดิมมาสิบปี
"""
LANGUAGES = {
    "English": ENGLISH, "Chinese": CHINESE, "Japanese": JAPANESE, "Thai": THAI, "Korean": KOREAN,
    "mixed": MIXED,
}  # fmt: skip
OTHERS = (3, 7, 11, 17)
"""Of which questions the four other posts are, counted on from the question's own."""


class Search(NamedTuple):
    """A question, five posts oldest first, and which of them fits."""

    question: str
    posts: tuple[str, ...]
    fits: int


def searches(language: str) -> list[Search]:
    """Return the twenty searches of one language; the post that fits is never the latest."""
    lines = [line.split(" | ") for line in LANGUAGES[language].strip().splitlines()]
    made = []
    for k, (question, post) in enumerate(lines):
        posts = [lines[(k + other) % len(lines)][1] for other in OTHERS]
        fits = k % len(posts)
        made.append(Search(question, (*posts[:fits], post, *posts[fits:]), fits))
    return made


def share_right(ordering: Ordering, language: str) -> float:
    """Return the share of searches in which the post that fits comes first."""
    every = searches(language)
    return sum(ordering(it.question, it.posts).things[0] == it.fits for it in every) / len(every)


def by_words(question: str, texts: Sequence[str]) -> Ranked[int]:
    """Order by BM25 over words between spaces, of two letters or more, in every script."""
    *documents, query = bm25s.tokenize(
        [*texts, question], stopwords="en", show_progress=False, return_ids=False
    )
    if not query or not any(documents):
        return Ranked(list(range(len(texts)))[::-1], matched=False)
    index = bm25s.BM25()
    index.index(documents, show_progress=False)
    scores = index.get_scores(query)
    return Ranked(sorted(range(len(texts)), key=lambda k: (-scores[k], -k)), bool(scores.any()))


def main() -> None:
    """Print the table."""
    for language in LANGUAGES:
        before, after = (share_right(search, language) for search in (by_words, nearest_first))
        every = searches(language)
        unmatched = sum(not by_words(it.question, it.posts).matched for it in every)
        left = sum(not nearest_first(it.question, it.posts).matched for it in every)
        sys.stdout.write(
            f"{language:9} first by words {before:.2f} ({unmatched:2} of {len(every)} without a "
            f"word in common), by palate {after:.2f} ({left:2})\n"
        )


if __name__ == "__main__":
    main()
