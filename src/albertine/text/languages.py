"""Languages for which sentencex has rules, its own or those of a related language.

sentencex does not list them, and splits text in any other language by the rules of English.
"""

_CODES = """
aae ab acm aeb als alt am an anp apc ar arn arq ary arz ast atj av avk awa ay ba bar bci bg blk bm bn bpy
bxr ca ce co cs csb cv da de dsb dua egl el eml en es ext fi fit fon fr frc frp frr fur gcf gcr gl gld gn
gsw gu guc hi hke hrx hsb ht hy hyw inh it ja jut kaa kab kbp kea kjh kjp kk kl kn koi krc krl ksh ksw kum
kv lad lb lbe lez li lij lld lmo ln lua mag mai mdf mg mhr ml mnw mr mrj mwl my myv nah nap nds nl oc olo
os pa pcd pdc pdt pfl pl pms pnt pt qu qug rgn rm ru rue rut sa sah scn sdc ses sg shy sjd sk sli smn srn
sro stq sty szl ta tcy te tet tt ty tyv udm uk vec vls vmf vmw vot wa wls wo xal
"""

SPLITTER_LANGUAGES = frozenset(_CODES.split())
