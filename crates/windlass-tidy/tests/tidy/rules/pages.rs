//! Where HTML is written, and how it stays safe.

use crate::rule::{Place, Rule};
use crate::source::{line_at, occurrences, words};
use crate::tree::{File, Tree};

pub(crate) const RULES: &[&Rule] = &[
    &TAGS_IN_TEMPLATES,
    &TEMPLATE_WIDTH,
    &NO_LINE_BREAKS,
    &NO_UNSAFE_FILTER,
    &ONE_MARKER,
    &FORMS_NAME_THEIR_TENANT,
    &NAMED_AS_FILLED,
];

const TEMPLATES: &str = "crates/windlass-server/templates/";
const MARKER: &str = "crates/windlass-server/src/web/html.rs";

/// The SVG chart renderer: the one place that writes markup in Rust.
const CHARTS: &str = "crates/windlass-server/src/web/chart";

const WIDEST: usize = 140;

/// Elements that pages are made of.
const ELEMENTS: &str = "a abbr article aside b bdi body br button canvas caption circle code col dd defs details dialog div dl \
    dt em fieldset figcaption figure footer form g h1 h2 h3 h4 h5 h6 head header hr html i iframe img input kbd label legend li \
    line link main meta nav noscript ol option p path pre progress rect script section select small span strong style sub \
    summary sup svg symbol table tbody td template text textarea tfoot th thead time title tr ul use";

/// The first tag in a string: `<` or `</`, the name of an element, and what can only follow it in a tag, or nothing.
fn tag(text: &str) -> Option<&str> {
    occurrences(text, "<").find_map(|at| {
        let rest = text[at + 1..].trim_start_matches('/');
        let end = rest.find(|letter: char| !letter.is_ascii_lowercase() && !letter.is_ascii_digit());
        let end = end.unwrap_or(rest.len());
        let is_element = ELEMENTS.split_whitespace().any(|element| element == &rest[..end]);
        let ends_as_tag = rest[end..].is_empty() || rest[end..].starts_with([' ', '>', '/', '{', '\\', '\n']);
        (is_element && ends_as_tag).then_some(&rest[..end])
    })
}

fn templates(tree: &Tree) -> impl Iterator<Item = &File> {
    tree.ending(".html").filter(|file| file.path.starts_with(TEMPLATES))
}

const TAGS_IN_TEMPLATES: Rule = Rule {
    name: "HTML is written in templates, not in Rust strings",
    fix: "move it to crates/windlass-server/templates; only web/chart draws SVG in Rust",
    find: |tree| {
        let sources = tree.rust().filter(|(file, _)| {
            file.path.contains("/src/") && !file.is_test() && !file.path.starts_with(CHARTS)
        });
        sources
            .flat_map(|(file, source)| {
                let strings = source.strings.iter().filter(|literal| !source.is_test(literal.start));
                strings.filter_map(|literal| {
                    tag(&literal.text)
                        .map(|name| file.place_at(literal.start, format!("the tag `{name}` in a string")))
                })
            })
            .collect()
    },
    caught: &[
        &[("crates/windlass-server/src/web/list.rs", "fn a() { format!(\"<b>{}</b>\", c); }\n")],
        &[("crates/windlass-server/src/web/list.rs", "fn a() { out.push_str(\"</ul>\"); }\n")],
        &[("crates/windlass-server/src/http/docs.rs", "const A: &str = \"x <td class=\\\"c\\\">\";\n")],
        &[("crates/windlass-server/src/web/a.rs", "fn a() { format!(\"<details{open}>\"); }\n")],
        &[("crates/windlass-server/src/web/a.rs", "fn a() { html.find(\"<form\"); }\n")],
    ],
    passes: &[
        &[("crates/windlass-server/src/web/chart/bars.rs", "const A: &str = \"<rect width=1/>\";\n")],
        &[("crates/windlass-server/src/web/a.rs", "/// An `<a>`.\nconst A: &str = \"<id> a<c <forms\";\n")],
        &[("crates/windlass-server/tests/it/a.rs", "const A: &str = \"<b>\";\n")],
        &[("crates/windlass-server/src/a.rs", "#[cfg(test)]\nmod tests { const A: &str = \"<b>\"; }\n")],
    ],
};

const TEMPLATE_WIDTH: Rule = Rule {
    name: "a line of a template has at most 140 columns",
    fix: "put each element, or each group of attributes, on its own line",
    find: |tree| {
        let wide = |file: &File| -> Vec<Place> {
            let lines = file.text.lines().enumerate();
            let wide = lines.filter(|(_, line)| line.chars().count() > WIDEST);
            wide.map(|(index, line)| file.place(index + 1, format!("{} columns", line.chars().count())))
                .collect()
        };
        templates(tree).flat_map(wide).collect()
    },
    caught: &[&[(
        "crates/windlass-server/templates/parts/a.html",
        "<p>\n.................................................................................................................................................\n</p>\n",
    )]],
    passes: &[
        &[("crates/windlass-server/templates/a.html", "<p>short</p>\n")],
        &[(
            "docs/a.html",
            ".................................................................................................................................................\n",
        )],
    ],
};

const NO_LINE_BREAKS: Rule = Rule {
    name: "no template sets space with `<br>`",
    fix: "give the element a margin: `gap` above it, `lead` below it",
    find: |tree| {
        let breaks = |file: &File| -> Vec<Place> {
            let found = occurrences(&file.text, "<br");
            found.map(|at| file.place(line_at(&file.text, at), "a line break")).collect()
        };
        templates(tree).flat_map(breaks).collect()
    },
    caught: &[&[("crates/windlass-server/templates/a.html", "<p>a</p>\n<br>\n")]],
    passes: &[&[("crates/windlass-server/templates/a.html", "<p class=\"lead\">a</p>\n")]],
};

const NO_UNSAFE_FILTER: Rule = Rule {
    name: "no template switches escaping off",
    fix: "print an Html, which a template or the chart renderer created",
    find: |tree| {
        let unsafe_filters = |file: &File| -> Vec<Place> {
            let filters = occurrences(&file.text, "|").filter(|&at| {
                let name = file.text[at + 1..].trim_start();
                let is_or = name.starts_with('|') || file.text[..at].ends_with('|');
                !is_or
                    && ["safe", "e(", "escape("].iter().any(|filter| {
                        name.strip_prefix(filter).is_some_and(|rest| {
                            filter.ends_with('(')
                                || !rest.starts_with(|letter: char| letter.is_alphanumeric())
                        })
                    })
            });
            filters.map(|at| file.place(line_at(&file.text, at), "a filter that prints as it is")).collect()
        };
        templates(tree).flat_map(unsafe_filters).collect()
    },
    caught: &[
        &[("crates/windlass-server/templates/a.html", "{{ text|safe }}\n")],
        &[("crates/windlass-server/templates/a.html", "{{ text | safe }}\n")],
        &[("crates/windlass-server/templates/a.html", "{{ text|escape(\"none\") }}\n")],
        &[("crates/windlass-server/templates/a.html", "{{ text|e(\"txt\") }}\n")],
    ],
    passes: &[&[(
        "crates/windlass-server/templates/a.html",
        "{{ text|urlencode_strict }} {% if a || safe %}{% endif %} safe\n",
    )]],
};

const ONE_MARKER: Rule = Rule {
    name: "text becomes HTML in web/html.rs alone",
    fix: "render a template with Html::rendered; only web/chart may call Html::drawn",
    find: |tree| {
        let sources = tree.rust().filter(|(file, _)| {
            file.path.starts_with("crates/windlass-server/src/") && !file.is_test() && file.path != MARKER
        });
        sources
            .flat_map(|(file, source)| {
                let traits = ["HtmlSafe", "HtmlSafeOutput", "MaybeSafe", "Safe"]
                    .into_iter()
                    .flat_map(|name| words(&source.code, name))
                    .map(|at| (at, "a type that askama does not escape"));
                let drawn = words(&source.code, "drawn")
                    .filter(|at| source.code[..*at].ends_with("Html::") && !file.path.starts_with(CHARTS))
                    .map(|at| (at, "a drawing outside the chart renderer"));
                let escaping = occurrences(&source.code, "#[template(").filter_map(|at| {
                    let attribute = &source.code[at..at + source.code[at..].find(")]")?];
                    let has = |name| words(attribute, name).next().is_some();
                    (has("escape") || has("source") || has("ext"))
                        .then_some((at, "a template that is not a file"))
                });
                let places = traits.chain(drawn).chain(escaping);
                places.map(|(at, what)| file.place_at(at, what)).collect::<Vec<_>>()
            })
            .collect()
    },
    caught: &[
        &[("crates/windlass-server/src/web/a.rs", "impl askama::filters::HtmlSafe for A {}\n")],
        &[("crates/windlass-server/src/web/jobs.rs", "fn a() { Html::drawn(text); }\n")],
        &[(
            "crates/windlass-server/src/web/a.rs",
            "#[template(source = \"x\", ext = \"html\")]\nstruct A;\n",
        )],
        &[(
            "crates/windlass-server/src/web/a.rs",
            "#[template(path = \"a.html\", escape = \"none\")]\nstruct A;\n",
        )],
    ],
    passes: &[
        &[("crates/windlass-server/src/web/html.rs", "impl askama::filters::HtmlSafe for Html {}\n")],
        &[("crates/windlass-server/src/web/chart/bars.rs", "fn a() { Html::drawn(text); }\n")],
        &[(
            "crates/windlass-server/src/web/a.rs",
            "#[template(path = \"escape.html\")]\nstruct A;\nfn drawn() {}\n",
        )],
    ],
};

/// What follows the tag of a form that posts.
const OF_TENANT: &str = "{{ parts::acting_for(frame) }}";

const FORMS_NAME_THEIR_TENANT: Rule = Rule {
    name: "a form that posts names the tenant for which it was rendered",
    fix: "begin the form with {{ parts::acting_for(frame) }}; only a page outside the frame, which extends standalone.html, may omit it",
    find: |tree| {
        let bare = |file: &File| -> Vec<Place> {
            let found = occurrences(&file.text, "<form").filter(|&at| {
                let Some((tag, inside)) = file.text[at..].split_once('>') else { return true };
                tag.contains("method=\"post\"") && !inside.trim_start().starts_with(OF_TENANT)
            });
            found.map(|at| file.place(line_at(&file.text, at), "a form without its tenant")).collect()
        };
        templates(tree)
            .filter(|file| !file.text.contains("extends \"standalone.html\""))
            .flat_map(bare)
            .collect()
    },
    caught: &[
        &[(
            "crates/windlass-server/templates/a.html",
            "<form method=\"post\">\n  <button>Save</button>\n</form>\n",
        )],
        &[("crates/windlass-server/templates/a.html", "<form\n  method=\"post\"><input></form>\n")],
    ],
    passes: &[
        &[(
            "crates/windlass-server/templates/a.html",
            "<form method=\"post\">\n  {{ parts::acting_for(frame) }}\n</form>\n",
        )],
        &[(
            "crates/windlass-server/templates/a.html",
            "<form action=\"/ui/jobs\"><input name=\"q\"></form>\n",
        )],
        &[(
            "crates/windlass-server/templates/a.html",
            "{% extends \"standalone.html\" %}\n<form method=\"post\"></form>\n",
        )],
    ],
};

const NAMED_AS_FILLED: Rule = Rule {
    name: "a template has the name of the file that fills it",
    fix: "web/jobs.rs and the files of web/jobs/ fill jobs.html, and templates whose names begin with jobs_, job. or job_",
    find: |tree| {
        let sources = tree.rust().filter(|(file, _)| file.path.starts_with("crates/windlass-server/src/"));
        sources
            .flat_map(|(file, _)| {
                let filled = occurrences(&file.text, TEMPLATE).filter_map(|at| {
                    let name = file.text[at + TEMPLATE.len()..].split(".html").next()?;
                    let fits = modules(&file.path).any(|module| belongs(name, module));
                    (!fits).then(|| file.place_at(at, format!("fills {name}.html")))
                });
                filled.collect::<Vec<_>>()
            })
            .collect()
    },
    caught: &[
        &[("crates/windlass-server/src/web/tokens.rs", "#[template(path = \"secret.html\")]\n")],
        &[("crates/windlass-server/src/web/jobs.rs", "#[template(path = \"jobless.html\")]\n")],
    ],
    passes: &[
        &[("crates/windlass-server/src/web/tokens.rs", "#[template(path = \"token_secret.html\")]\n")],
        &[("crates/windlass-server/src/web/tokens.rs", "#[template(path = \"tokens.html\")]\n")],
        &[("crates/windlass-server/src/web/triggers/edit.rs", "#[template(path = \"trigger.html\")]\n")],
    ],
};

const TEMPLATE: &str = "#[template(path = \"";

/// The file and the folders that it is in, without the suffix.
fn modules(path: &str) -> impl Iterator<Item = &str> {
    path.trim_end_matches(".rs").split('/')
}

/// Whether the name is that of the module, or begins with it or with its singular.
fn belongs(name: &str, module: &str) -> bool {
    [module, module.strip_suffix('s').unwrap_or(module)]
        .iter()
        .any(|start| name.strip_prefix(start).is_some_and(|rest| rest.is_empty() || rest.starts_with('_')))
}
