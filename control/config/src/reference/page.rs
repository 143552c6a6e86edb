//! The page: a table for each part of each file.

use serde_json::{Map, Value};

use super::{File, schema};

const HEAD: &str = "\
# Configuration reference

Every key of every file. This page is written from the types that read the files, by `spraycheck reference`; a
test fails when it differs. `spraycheck check FILE` says what is wrong with a file, by line and key, and prints it
resolved; files with every key in its place are in [examples](examples).

Files are TOML. A **rate** is written `10Gbps`, a **size** `64KiB`, `400kB` or `4096` (bytes), a **time** `100ms` (ns,
us, ms, s), a **probability** `0.005` or `\"0.5%\"`, a **fault** `leaf3>spine5:drop=0.01` (see
[faults](faults.md)), a **link** `leaf3>spine5`, or `leaf3-spine5` for both directions. `[[part]]` may
be there any number of times. Where no default is given, the key must be there; \"-\" means that it may be left out and
then says nothing. An unknown key is refused, with the one that was probably meant.

`spraycheck reference --schema switch` (or fabric, testbed, scenario, monitor, relay) prints a JSON schema, with which editors complete
and check files while they are written.
";

/// What stands before the tables of a file.
fn introduction(file: File) -> &'static str {
    match file {
        File::Switch => {
            "## A switch\n\nFor `spraycheck switch`, `replay`, `check` and `doctor`; \
             [leaf0.toml](examples/leaf0.toml) is one. `spraycheck generate` writes them for a whole fabric.\n"
        }
        File::Fabric => {
            "## A fabric\n\nFor `spraycheck generate`; [fabric.toml](examples/fabric.toml) is one, \
             [fabric.md](fabric.md) the guide. Parts that say \"as in the file of a switch\" go into the files of all \
             switches, with the defaults there.\n"
        }
        File::Testbed => {
            "## A testbed\n\nFor `spraycheck testbed --config`; [testbed.toml](examples/testbed.toml) is one. \
             A flag of the same name goes over the file; `faults` and `disabled` are the flags `--fail` and \
             `--disable`.\n"
        }
        File::Scenario => {
            "## A scenario\n\nFor `spraycheck sim --scenario`; [scenario.toml](examples/scenario.toml) is one. \
             A fabric, and what changes in it when.\n"
        }
        File::Monitor => {
            "## A monitor\n\nFor `spraycheck monitor --config`; [monitor.toml](examples/monitor.toml) is one, \
             [monitor.md](monitor.md) the guide.\n"
        }
        File::Relay => {
            "## A relay\n\nFor `spraycheck relay --config`; [relay.toml](examples/relay.toml) is one. `[nats]` is that of a \
             monitor.\n"
        }
    }
}

pub(super) fn write() -> String {
    let mut text = HEAD.to_owned();
    for file in File::ALL {
        text.push('\n');
        text.push_str(introduction(file));
        part(&mut text, file, "", &schema(file), None);
    }
    text
}

/// A part of a file that the page has elsewhere.
fn elsewhere(file: File, path: &str) -> bool {
    match file {
        File::Fabric => matches!(
            path,
            "spray" | "queue" | "measurement" | "metrics" | "eal" | "device"
        ),
        // A testbed's own keys.
        File::Scenario => path == "fabric",
        // A monitor's keys.
        File::Relay => path == "nats",
        File::Switch | File::Testbed | File::Monitor => false,
    }
}

/// The keys of one part, then its parts.
fn part(text: &mut String, file: File, path: &str, schema: &Value, about: Option<&str>) {
    let Some(Value::Object(keys)) = schema.get("properties") else {
        return;
    };
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .map(|keys| keys.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let (parts, plain): (Vec<_>, Vec<_>) = keys
        .iter()
        .partition(|(_, schema)| is_part(file, path, schema));
    if !path.is_empty() {
        text.push_str(&format!("\n### {} `{path}`\n\n", capital(file.word())));
    } else {
        text.push('\n');
    }
    if let Some(about) = about {
        text.push_str(about);
        text.push_str("\n\n");
    }
    if !plain.is_empty() {
        text.push_str("| key | type | default | range | meaning | example |\n");
        text.push_str("| --- | --- | --- | --- | --- | --- |\n");
        for (key, schema) in plain {
            row(text, key, schema, required.contains(&key.as_str()));
        }
    }
    for (key, schema) in parts {
        let (name, inner) = match inner_of_list(schema) {
            Some(items) => (format!("[[{}]]", joined(path, key)), items),
            None => (format!("[{}]", joined(path, key)), inner_of(schema)),
        };
        let about = schema.get("description").and_then(Value::as_str);
        let plain_path = joined(path, key);
        if elsewhere(file, &plain_path) {
            let about = about.unwrap_or_default();
            text.push_str(&format!(
                "\n### {} `{name}`\n\n{about}\n",
                capital(file.word())
            ));
        } else {
            part(text, file, &name, inner, about);
        }
    }
}

fn joined(path: &str, key: &str) -> String {
    match path.trim_matches(['[', ']']) {
        "" => key.to_owned(),
        path => format!("{path}.{key}"),
    }
}

/// Whether a key is a table, or a list of tables, with a heading of its own. In a fabric's file what a switch
/// has otherwise is written in one line.
fn is_part(file: File, path: &str, schema: &Value) -> bool {
    let inner = inner_of_list(schema).unwrap_or_else(|| inner_of(schema));
    inner.get("properties").is_some() && (file, path) != (File::Fabric, "[[switch]]")
}

/// The items of a list of tables.
fn inner_of_list(schema: &Value) -> Option<&Value> {
    schema
        .get("items")
        .filter(|items| items.get("properties").is_some())
}

/// Of an optional part the part.
fn inner_of(schema: &Value) -> &Value {
    let either = schema.get("anyOf").and_then(Value::as_array);
    let found = either.and_then(|all| all.iter().find(|one| one.get("properties").is_some()));
    found.unwrap_or(schema)
}

fn row(text: &mut String, key: &str, schema: &Value, is_required: bool) {
    let get = |name: &str| schema.get(name);
    let default = match (get("x-default"), get("x-unless"), get("x-paper")) {
        (Some(value), _, Some(paper)) => format!("{}; paper: {}", code(value), code(paper)),
        (Some(value), _, None) => code(value),
        (None, Some(Value::String(text)), _) => text.clone(),
        _ if is_required => "must be there".to_owned(),
        _ => "-".to_owned(),
    };
    let range = match get("x-range") {
        Some(Value::Array(ends)) => ends.iter().map(plain).collect::<Vec<_>>().join(" to "),
        Some(Value::String(text)) => text.clone(),
        _ => words(schema).unwrap_or_else(|| "-".to_owned()),
    };
    let mut kind = kind(schema);
    if let Some(Value::String(unit)) = get("x-unit") {
        kind = format!("{kind}, {unit}");
    }
    let meaning = get("description")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let meaning = meaning.replace('\n', " ").replace('|', "\\|");
    let example = get("x-example").map_or("-".to_owned(), code);
    text.push_str(&format!(
        "| `{key}` | {kind} | {default} | {range} | {meaning} | {example} |\n"
    ));
}

/// What a value of the key is.
fn kind(schema: &Value) -> String {
    if let Some(Value::String(kind)) = schema.get("x-type") {
        return kind.clone();
    }
    if words(schema).is_some() {
        return "word".to_owned();
    }
    if let Some(Value::Array(all)) = schema.get("anyOf") {
        let known = all
            .iter()
            .find(|one| one.get("type") != Some(&"null".into()));
        return known.map_or_else(|| "value".to_owned(), kind);
    }
    let types: Vec<&str> = match schema.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let kind = types.into_iter().find(|kind| *kind != "null");
    match kind {
        Some("integer" | "number") => "number".to_owned(),
        Some("boolean") => "true or false".to_owned(),
        Some("string") => "text".to_owned(),
        Some("array") => match schema.get("items") {
            Some(items) => format!("list of {}", plural(&self::kind(items))),
            None => "list".to_owned(),
        },
        Some("object") => "table".to_owned(),
        _ => "value".to_owned(),
    }
}

fn plural(kind: &str) -> String {
    match kind {
        "text" | "value" | "number" => format!("{kind}s"),
        kind => kind.to_owned(),
    }
}

/// The words that a key may have.
fn words(schema: &Value) -> Option<String> {
    let of_list = |list: &Vec<Value>| -> Vec<String> {
        list.iter()
            .filter(|word| !word.is_null())
            .map(plain)
            .collect()
    };
    if let Some(Value::Array(list)) = schema.get("enum") {
        return Some(of_list(list).join(", "));
    }
    for key in ["anyOf", "oneOf"] {
        if let Some(Value::Array(all)) = schema.get(key) {
            let constants: Vec<String> = all
                .iter()
                .filter_map(|one| one.get("const"))
                .map(plain)
                .collect();
            if !constants.is_empty() {
                return Some(constants.join(", "));
            }
            let nested = all.iter().find_map(words);
            if nested.is_some() {
                return nested;
            }
        }
    }
    None
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

/// A value as TOML has it.
fn code(value: &Value) -> String {
    format!("`{}`", toml_of(value).replace('|', "\\|"))
}

pub(super) fn toml_of(value: &Value) -> String {
    match value {
        Value::Object(table) => inline(table),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(toml_of).collect();
            format!("[{}]", items.join(", "))
        }
        value => value.to_string(),
    }
}

fn inline(table: &Map<String, Value>) -> String {
    let is_bare = |key: &str| key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let items = table.iter().map(|(key, value)| {
        let key = if is_bare(key) {
            key.clone()
        } else {
            format!("{key:?}")
        };
        format!("{key} = {}", toml_of(value))
    });
    let items: Vec<String> = items.collect();
    match items.is_empty() {
        true => "{}".to_owned(),
        false => format!("{{ {} }}", items.join(", ")),
    }
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => String::new(),
    }
}
