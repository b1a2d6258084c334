"""Languages: which have rules for sentences, their names, and what a vocabulary keeps of their writing.

sentencex does not list the languages for which it has rules, its own or those of a related language. It
splits text in any other language by the rules of English.
"""

AUTO = "auto"  # the language is detected
UNKNOWN = ""  # no language was detected

_CODES = """
aae ab acm aeb als alt am an anp apc ar arn arq ary arz ast atj av avk awa ay ba bar bci bg blk bm bn
bpy bxr ca ce co cs csb cv da de dsb dua egl el eml en es ext fi fit fon fr frc frp frr fur gcf gcr gl
gld gn gsw gu guc hi hke hrx hsb ht hy hyw inh it ja jut kaa kab kbp kea kjh kjp kk kl kn koi krc krl
ksh ksw kum kv lad lb lbe lez li lij lld lmo ln lua mag mai mdf mg mhr ml mnw mr mrj mwl my myv nah nap
nds nl oc olo os pa pcd pdc pdt pfl pl pms pnt pt qu qug rgn rm ru rue rut sa sah scn sdc ses sg shy sjd
sk sli smn srn sro stq sty szl ta tcy te tet tt ty tyv udm uk vec vls vmf vmw vot wa wls wo xal
"""

_NAMES = """
ace Acehnese|af Afrikaans|am Amharic|an Aragonese|ar Arabic|ary Moroccan Arabic|arz Egyptian Arabic
as Assamese|az Azerbaijani|ba Bashkir|bcl Bikol|be Belarusian|bg Bulgarian|bn Bengali|br Breton
bs Bosnian|ca Catalan|crh Crimean Tatar|cs Czech|cy Welsh|da Danish|de German|dz Dzongkha|el Greek
en English|eo Esperanto|es Spanish|et Estonian|eu Basque|ext Extremaduran|fa Persian|fi Finnish
fo Faroese|fr French|fuv Fulfulde|fy Frisian|ga Irish|gcf Antillean Creole|gcr Guianese Creole
gd Scottish Gaelic|gl Galician|gom Konkani|grc Ancient Greek|gu Gujarati|gug Guarani|guw Gun|ha Hausa
hbo Biblical Hebrew|he Hebrew|hi Hindi|hr Croatian|ht Haitian Creole|hu Hungarian|hy Armenian
id Indonesian|ig Igbo|is Icelandic|it Italian|ja Japanese|jv Javanese|ka Georgian|kab Kabyle|kik Kikuyu
kk Kazakh|km Khmer|kn Kannada|ko Korean|ku Kurdish|ky Kyrgyz|la Latin|lb Luxembourgish|lg Ganda
lij Ligurian|ln Lingala|lo Lao|lt Lithuanian|ltg Latgalian|lv Latvian|mg Malagasy|mk Macedonian
ml Malayalam|mn Mongolian|mr Marathi|ms Malay|mt Maltese|my Burmese|ne Nepali|nl Dutch
nn Norwegian Nynorsk|no Norwegian|nso Northern Sotho|oc Occitan|om Oromo|or Odia|pa Punjabi
pcm Nigerian Pidgin|pl Polish|ps Pashto|pt Portuguese|qu Quechua|ro Romanian|ru Russian|rw Kinyarwanda
sa Sanskrit|sdh Southern Kurdish|se Northern Sami|si Sinhala|sk Slovak|sl Slovenian|sn Shona|so Somali
sq Albanian|sr Serbian|st Southern Sotho|sv Swedish|sw Swahili|ta Tamil|te Telugu|tg Tajik|th Thai
tk Turkmen|tl Tagalog|tr Turkish|tt Tatar|ug Uyghur|uk Ukrainian|ur Urdu|uz Uzbek|uzs Southern Uzbek
vec Venetian|vi Vietnamese|vo Volapük|wa Walloon|wuu Wu Chinese|xh Xhosa|yo Yoruba|yue Cantonese
zh Chinese|zu Zulu
"""

SPLITTER_LANGUAGES = frozenset(_CODES.split())
LANGUAGE_NAMES = dict(entry.split(" ", 1) for line in _NAMES.split("\n") if line for entry in line.split("|"))
LANGUAGES = SPLITTER_LANGUAGES | LANGUAGE_NAMES.keys()

# Nouns have capitals, as in German "Weg" (path) and "weg" (gone).
_CAPITAL_NOUNS = frozenset(("als", "bar", "de", "gsw", "ksh", "lb", "nds", "pdc", "pdt", "pfl", "sli", "stq"))
# I without a dot and i with one are two letters, but lower case makes both i.
_DOTLESS_I = frozenset(("az", "crh", "kaa", "tr", "tt"))


def language_name(code: str) -> str:
    """Return the English name of a language, or its code if it has no name here."""
    return LANGUAGE_NAMES.get(code, code) if code else "unknown"


def keeps_accents(code: str) -> bool:
    """Return whether a vocabulary keeps accents by default: in every known language except English.

    What ALBERT removes as accents are all marks with a combining class: also the dots of umlauts, the voicing
    marks of Japanese, and the signs of Hindi that remove a vowel.
    """
    return code not in ("en", UNKNOWN)


def keeps_capitals(code: str) -> bool:
    """Return whether a vocabulary keeps capitals by default, because lower case loses distinctions."""
    return code in _CAPITAL_NOUNS | _DOTLESS_I
