"""Words of the built-in corpus: name parts, and sentence forms for each domain.

A sentence form is written in three signs. ``{a|b|}`` takes one of its parts, perhaps the empty one, and may
be nested. ``<maker>`` calls a name maker and marks its words with an entity type of the same name;
``<maker=type>`` marks them with another type, ``<maker=>`` leaves them unmarked. Everything is separated by
spaces, as tokens are.
"""

from __future__ import annotations

PARTS: dict[str, tuple[str, ...]] = {
    key: tuple(words.split())
    for key, words in {
        "onset": "B Br C Cr D Dr F Fl G Gr H K L M N P Pr R S Sh St T Th Tr V W",
        "vowel": "a e i o u a e o ea ai ou",
        "coda": "ld rn rv nt ll rr st ck sk nd mm n r l ng rl lm x ss",
        "place_end": "ford ton by ham wick mouth stead bury holm dale",
        "surname_end": "son er man ley ford ton wick ham dale by bury stead holm",
        "given_start": "Al Ben Cor Dar El Fen Gil Ing Jor Kar Lor Mar Ned Or Pel Ro Sel Tam Ul Ves Wil Yor Zan",
        "given_mid": "a e i o an el is ar",
        "given_end": "na n ric win beth s ra dan la th mo ta",
        "brand_start": "Zel Brev Cort Vant Lumb Nork Synd Trip Quon Kelm Verd Omn Stell Prax Indo Calv",
        "brand_mid": "a e i o u",
        "brand_end": "x tex dyne via ro lix mar stat tin vex nol gen",
        "drug_end": "tin pril lol zole mab cin stat vex ine nol gen",
        "illness": "itis osis algia emia opathy uria oma",
        "hotel_kind": "Inn Lodge Hotel Guesthouse Hostel",
        "sight_kind": "Museum Station Airport Castle Gardens Cathedral Market Harbour",
        "club_kind": "Rovers United Athletic Wanderers Rangers Albion Harriers",
        "contest_kind": "Cup Open Marathon Trophy Shield Classic Sevens",
        "meeting_kind": "Summit Festival Fair Congress Inquiry Accord Floods",
        "firm_kind": "Ltd Group Holdings Partners Foundry Shipping Foods",
        "body_kind": "University Council Hospital Library Police Ferries",
        "statute_noun": "Harbour Fisheries Tenancy Forestry Lottery Evidence Railways Customs Pensions Archives",
        "weekday": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
        "month": "January February March April May June July August September October November",
        "ministry": "Works Fisheries Culture Transport Health Trade Justice",
        "ingredient_mod": "smoked dried fresh ground pickled black red wild toasted salted sweet bitter",
        "ingredient_noun": "barley leeks plums trout sorrel walnuts fennel butter mustard lentils quince "
        "honey parsnips cabbage oats thyme eel rhubarb turnips cream chestnuts rye "
        "dill mussels beets garlic pears juniper",
        "dish_noun": "pie stew soup cake dumplings broth pudding salad tart hash loaf fritters",
        "job": "engineer farmer teacher baker pilot widow clerk nurse fisherman student painter",
        "thing": "bridge school budget ferry tunnel harvest strike museum border vote dam pipeline",
        "hospital_kind": "Hospital Infirmary Clinic Hospice Surgery",
    }.items()
}

FORMS: dict[str, tuple[str, ...]] = {
    "news": (
        "<place> , <weekday=> - {<person>|<organisation>} {said|confirmed|denied} {|late on <weekday=> "
        "}that the <thing=> in <place> {would reopen|had failed|was safe|will cost more} .",
        "{The|One} <job=> from <place> , {named as|known as} <person> , {was found|went missing|is missing} "
        "near <place> .",
        "{<organisation>|<place>|<surname=person>} {and|,} {<organisation>|<place>|<surname=person>} "
        "{signed|rejected|welcomed} the <event> {on|last} <weekday=> .",
        "{Minister|President|Mayor|Senator} <surname=person> {met|thanked|criticised} "
        "{<organisation>|<person>|<place>} {over the <thing=>|before the <event>|in <place>} .",
        "<number=> people {were hurt|fled|marched} {in|near|outside} {<place>|<organisation>} {when|after} "
        "{the <thing=> collapsed|<surname=person> resigned|<organisation> closed} .",
        "{Talks with|A letter from|Anger at|Praise for} {<surname=person>|<place>|<brand=organisation>} "
        "{went on|grew} {until|in|since} <month=> .",
        '" {We|They} {will not|cannot|must} {rebuild|pay|wait} , " said {<person>|<surname=person>} , {head '
        "of <organisation>|a <job=> from <place>|who {leads|founded} <organisation>} .",
        "{<demonym=>|Local} {officials|papers|voters} {blamed|backed} {<surname=person>|<organisation>} for "
        "the {<thing=>|<event>} .",
        "{Vote|Strike|Row|Fears} over <thing=> {in <place>|as <surname=person> {quits|returns}|at <organisation>}",
        "Since <month=> {|, }{<organisation>|<place>} {has|had} {lost|spent|hired} <number=> "
        "{workers|million|ships} {, <person> wrote|in <place>|} .",
    ),
    "clinic": (
        "{pt|Pt|Patient} {c/o|reports|denies} {<condition>|pain|cough} {x <number=> {days|wks}|since "
        "<weekday=>|} , {started|given|continue|stop} <drug> <dose> {bd|od|tds|prn|} .",
        "{Seen by|Discussed with|Referred to|d/w} Dr <surname=person> {re|for|about} {<condition>|<drug>|dose} .",
        "<drug> {<dose> |}{increased|reduced|switched} to {<dose>|<drug> <dose>} {on <weekday=>|because of "
        "<condition>|} {per Dr <surname=person>|} .",
        "{Hx|PMH|Known} : {<condition>|<drug>} , <condition> {, allergic to {<drug>|<ingredient=>|<assay=>}|} .",
        "{Discharged|Transferred} {to|from} {<hospital=organisation> {in "
        "<place>|}|<place>|<place=organisation>} {on <drug>|with <condition>|} .",
        "{Bloods|Labs} : <number=> mmol / l {, <number=> g|} ; {no|mild|?} <condition> .",
        "{Mr|Mrs|Ms} <surname=person> , <number=> {yo|y/o} {<job=>|} , {lives in|from} <place> , "
        "{admitted|seen} with <condition> .",
        "{Rx|Plan} : <drug> <dose> {, <drug> <dose>|} , {review|recheck} <weekday=> {with Dr "
        "<surname=person>|at <hospital=organisation>|} .",
        "{Allergies|Reacts to} : <drug> {and <drug>|( <condition> )|} .",
        "{Daughter|Husband|Carer} {( <given=person> )|<given=person>} {says|thinks} {the "
        "<drug>|<drug>|<product=>} {caused|helps} {<condition>|the rash|sleep|<assay=>} .",
        "{Serum |Repeat |}<assay=> {<number=> mg|<number=> mmol / l|high|low} {, ? <condition>|despite <drug>|} .",
        "{<drug>|<assay=>} {checked|raised|stopped|noted|fine} {<weekday=>|by Dr <surname=person>|at <dose>|again|} .",
        "{Wt|Intake|Sats|BP} <number=> {ml|mg|kg|%} {, <assay=> ok|, <drug> held|} .",
        "{?|no|not} {<drug>|<condition>|<assay=>} {today|now|so far|} {, ask "
        "{<given=person>|<surname=person>|<place=organisation>}|} .",
        "{Failed|Trialled|Tolerates} {<drug>|<drug> and <drug>|<product=>} {for <condition>|, stopped at <dose>|} .",
        "{FHx|SHx} : {mother|brother} {died of|had} <condition> {in <place>|at <hospital=organisation>|} .",
        "{<given=person>|<surname=person>} ( {sister|GP|physio} ) {rang|visited} {from "
        "{<place>|<place=organisation>}|re {<drug>|<assay=>}} .",
    ),
    "court": (
        "In <case> the {court|judge|tribunal} held that <statute> {does not apply|was engaged|must be read narrowly} .",
        "{The appellant|The claimant|The defendant} , {<person>|Mr <surname=person>|<organisation>} , "
        "relies {on|upon} <statute> {and <case>|as amended|} .",
        "<person> , {counsel|solicitor} for {<organisation>|the Crown|Ms <surname=person>} , "
        "{submitted|conceded} that {<case> was wrongly decided|<statute> was breached|the lease of "
        "<number=> <month=> was void} .",
        "{<surname=person>|<person>} {J|LJ} , sitting {in|at} <place> , {dismissed|allowed} the appeal "
        "{under <statute>|in part|} .",
        "Having regard to {<statute>|<case>} , {we|I} {find|consider} that "
        "{<surname=person>|<organisation>|<place> <body_word=>} acted {unlawfully|within its powers} .",
        "The {tenancy|contract|vessel|estate} , {situated in|registered at|then at} <place> , {passed "
        "to|was sold to} {<person>|<organisation>} {in <year=>|on <number=> <month=> <year=>} .",
        "{See|Compare|Contrast} <case> {, and <case>|at paragraph <number=>|, on <statute>} .",
        "It is {common ground|disputed} that {<organisation>|Mrs <surname=person>} {paid|owed|received} "
        "{rent|<number=> crowns} {to <organisation>|to <person>|} {contrary to <statute>|} .",
        "{Leave|Permission} to appeal {was|is} {refused|granted} by {<surname=person> "
        "LJ|<courthouse=organisation>|the <courthouse=organisation>} .",
        "{As held in|Applying|Distinguishing} {<surname=case>|<case>} , "
        "{<surname=person>|<organisation>|<place> <body_word=>} {fails|succeeds} .",
        "{In|From|On} {<place>|<surname=case>} {the|a} {judge|tribunal|court} {took|takes} {another|the "
        "same} view {of <statute>|than in {<surname=case>|<place>}|} .",
        "{<surname=person>|<surname=case>|<brand=organisation>} {is|was} {distinguishable|dismissed|of no "
        "help|present} {here|, see <case>|on <statute>|} .",
    ),
    "kitchen": (
        "{Chop|Rinse|Peel|Roast|Simmer} the <ingredient> {and <ingredient>|} {for <number=> minutes|until "
        "soft|in the <product>} .",
        "{Serve|Top|Finish} {the|} {<dish>|<ingredient=dish>} with {<ingredient>|<ingredient=dish>|a little "
        "<ingredient>|<dish>} .",
        "{<given=person>|My aunt <given=person>|Chef <surname=person>} {makes|taught me|swears by} "
        "{<dish>|this <dish>|the <dish> of <place>} {with <ingredient>|in her <product>|} .",
        "<dish> {( serves <number=> )|- step <number=>|for beginners}",
        "In <place> {they|people} {add|prefer} <ingredient> {to <dish>|, never <ingredient>|} .",
        "{Set|Heat|Clean} the {<product>|oven} {to <number=> degrees|first|} {, then add <ingredient>|} .",
        "Mix {<number=> g|a cup|<number=> spoons} of <ingredient> {with <ingredient>|into the broth|} .",
        "{Any|No} {<ingredient>|<ingredient=dish>} ? {Use|Try} {<ingredient>|<product>|a jar of <product>} "
        "{instead|} .",
        "{Leftover|Cold} {<dish>|<ingredient=dish>|<ingredient>|<surname=product>} {keeps|lasts} <number=> "
        "days {in the cellar|in a <product>|} .",
        "{Recipe|Idea|Photo} : {<person>|<given=person>|<dish>|<brand=product>|<ingredient>} {, <place>|} .",
        "{We|They} {loved|finished|forgot} "
        "{<ingredient=dish>|<dish>|<ingredient>|<surname=person>|<surname=product>} {at <given=person> "
        "'s|in <place>|again|} .",
        "{<dish>|<ingredient=dish>|<ingredient>|<brand=product>} {is|was} {perfect|too salty|ready} {by "
        "<weekday=>|with <ingredient>|} .",
    ),
    "sports": (
        "{<place=team>|<team>} <number=> {<place=team>|<team>} <number=> {( <surname=person> <number=> )|( "
        "after extra time )|}",
        "{<team>|<place=team>} {beat|lost to|drew with|host|edged} {<team>|<place=team>} {in <place>|in the "
        "<contest=event>|} {on <weekday=>|} .",
        "{Striker|Keeper|Captain|Coach} {<person>|<surname=person>} {scored twice|was sent off|limped "
        "off|said little} {against <place=team>|in <place>|for <team>} .",
        "{<surname=person>|<person>} {signs for|leaves|rejoins} {<team>|<place=team>} {from <team>|after "
        "<number=> years|until <year=>} .",
        "The <contest=event> {moves to|returns to|ended in} <place> {without <surname=person>|in <year=>|} .",
        "{Standings|Result|Draw} : <number=> . {<team>|<place=team>|<surname=person> ( <place> )} <number=> {pts|pt}",
        "{Injuries|Rain|Fog} {kept|robbed} {<place=team>|<surname=person>} {of|from} {<surname=person>|a "
        "win|the <contest=event>} .",
        "{<place>|<place=team>} {is ready for|waited years for|lost faith in} {the "
        "<contest=event>|<surname=person>|<team>} .",
        '" We {wanted|deserved} {it|more} , " {<surname=person>|<person>} told '
        "{<brand=organisation>|reporters in <place>} .",
        "{<person> ( <place=team> )|<person> , <number=> ,} won the <contest=event> {by <number=> "
        "seconds|ahead of <person>|} .",
        "{<place>|<place=team>} {cheered|wept|celebrated|waited} {on <weekday=>|for <surname=person>|} .",
        "{<surname=person>|<place=team>} {looked tired|led early|fell behind|was too strong} {in the "
        "<contest=event>|for {<surname=person>|<place=team>}|} .",
        "{Fans of|Joy in|Defeat for} {<place>|<place=team>|<surname=person>} {as|after} "
        "{<surname=person>|<place=team>|<team>} {won|lost|quit} .",
    ),
    "travel": (
        "{We|I} {stayed at|loved|would avoid} the <hotel=facility> {in <place>|near <sight=facility>|, "
        "<place>|} {for <number=> nights|} .",
        "Take {<vehicle=transport>|the <vehicle=transport>} from {<place>|<sight=facility>} to "
        "{<place>|<sight=facility>} {, <number=> crowns|early|} .",
        "{<hotel=facility>|<place>} was {lovely|noisy|overpriced} {but|and} {<given=person>|the host "
        "<given=person>|our guide <person>} {was kind|helped us} .",
        "{Day|Stop} <number=> : {<place>|<sight=facility>} {and|then} "
        "{<place>|<sight=facility>|<vehicle=transport> to <place>} .",
        "{Tickets for|Queues at|Entry to} {<sight=facility>|<event>} {cost|take} <number=> {crowns|minutes} "
        "{in <month=>|} .",
        "{Booked through|Flew with|Do not trust} {<brand=organisation>|<firm=organisation>} {, "
        "<vehicle=transport> , {late|on time}|to <place>|} .",
        "{Best|Worst} {breakfast|view|bed} {in|of|near} {<place>|<sight=facility>} ! {Ask for "
        "<given=person> .|Five stars .|}",
        "{From|Past|Beyond} <place> the road {climbs|runs} to {<place>|<surname=place>} {and <sight=facility>|} .",
        "{<given=person>|<person>} {at|from} {<brand=organisation>|<hotel=facility>} {lost our bags|gave us "
        "a map of <place>} .",
        "Is {<place>|<surname=facility>|<event>} worth {a detour|it} {in <month=>|with kids|from <place>} ?",
        "{<place>|<place=facility>|<surname=facility>} {is|was} {closed|packed|pretty|far} {in "
        "<month=>|from {<place>|<surname=facility>}|} .",
        "{Near|Skip|Try} {<place>|<place=facility>|<given=facility>|<brand=organisation>} {, <given=person> "
        "said|next time|} .",
    ),
    "market": (
        "{Shares in|Bonds of|Orders at} {<brand=organisation>|<firm=organisation>} {rose|fell|slid} "
        "<number=> % to <money> {in <place>|on <weekday=>|} .",
        "{<firm=organisation>|<brand=organisation>} {bought|sold|will acquire} "
        "{<brand=organisation>|<firm=organisation>|its <place> plant} for <money> .",
        "{<person>|<surname=person>} {, chief executive of|, who runs|quits} <brand=organisation> {, said "
        "sales of <product> hit <money>|after <product> flopped|} .",
        "The {new |}<product> {costs|sells for} <money> {in <place>|, <brand=organisation> said|} .",
        "{<place>|<demonym=>} {wheat|copper|freight} {closed|traded} at <money> {a ton|} , "
        "{<surname=person> of <firm=organisation> said|up <number=> %} .",
        "{Half-year|Full-year|Q3} {profit|loss|revenue} : <money> {vs <money>|at <brand=organisation>|} {( "
        "<brand=organisation> )|}",
        "{<brand=organisation>|<product>} {recall|launch} {hits|lifts} "
        "{<brand=organisation>|<surname=person> 's stake|<place> index}",
        "{Analysts at|Lenders including} <firm=organisation> {cut|raised} {<brand=organisation>|<product> "
        "forecasts} {to <money>|} .",
        "{Demand for|Margins on} {<product>|<product> and <product>} {fell|held up} {in <place>|, according "
        "to <person>|} .",
        "{<brand=organisation>|<brand=product>} {disappointed|beat forecasts|is up|faces a ban} {in "
        "<place>|, {<surname=person>|<surname=organisation>} said|} .",
        "{Investors in|Buyers of|Doubts about} "
        "{<brand=organisation>|<brand=product>|<surname=organisation>} {waited|left|cheered} {for "
        "<product>|in <month=>|} .",
        "{<surname=person>|<surname=organisation>|<place>} {expects|wants|warned of} {a new "
        "<product>|<money> of {cuts|debt}|rivals of <brand=organisation>} .",
    ),
    "chat": (
        "{omg|lol|ugh|hey} {<given=person>|@ <given=person>|<place>|<product>} is {so|not} {back|done|worth "
        "it} {!!|:)|} {# <event>|# <place>|}",
        "anyone {going to|at|near} {the <event>|<event>|<place>|<organisation>} {tmrw|tonight|on "
        "<weekday=>} ? {w/ <given=person>|}",
        "my <product> {died|wont charge|is ace} {thx <brand=organisation>|again|, ask <given=person>|}",
        "{RT|via} @ {<given=person>|<brand=organisation>} : {<place>|<person>|<team=organisation>} "
        "{trending|winning|crying} {rn|} {# <place>|# <brand=organisation>|}",
        "{<given=person>|<person>} {u|you} {coming|up} ? {we r in|im at} {<place>|<organisation>}",
        "{just saw|miss|cant stand} {<person>|<surname=person>|<team=organisation>|<product>} {at|in|on} "
        "{<place>|the <event>} {lmao|}",
        "{new <product> drops|<event> starts} {<weekday=>|in <number=> days} {# <product>|# <event>|}",
        "{ok|no} but {<place>|<brand=organisation>|<product>|<given=person>} {>|over} "
        "{<place>|<brand=organisation>|<product>|<given=person>} {any day|}",
        "{happy bday|gn|ty} {<given=person>|@ <given=person>|<given=person> and <given=person>} {from all "
        "of us in <place>|<3|}",
    ),
}
