//! The configuration that running switches have, and how it becomes another one.
//!
//! A file that is read again, or a word of an operator that changes one key of it, both give a whole
//! new configuration, which is checked like that of a start. What differs is then named key by key;
//! a key that cannot change while packets flow refuses all of it.

mod keys;

use std::path::{Path, PathBuf};

use toml::{Table, Value};

use crate::error::{ConfigError, nearest};
use crate::switch_file::SwitchSpec;
use crate::switch_set::SwitchSet;

/// The files of a process as they are in force: what was set since is in them.
#[derive(Clone, PartialEq, Debug)]
pub struct InForce {
    paths: Vec<PathBuf>,
    documents: Vec<Table>,
    /// What follows from them.
    pub set: SwitchSet,
}

/// What an operator changes of one switch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Edit {
    /// A key such as `measurement.evidence` gets a value as a file has it; `None`: its default.
    Key(String, Option<String>),
    /// A prefix leads to a leaf or spine from now on; `None`: nowhere.
    Route(String, Option<String>),
    /// A host has its place behind a port, with a MAC address or to be learned; `None`: nowhere.
    Host(String, Option<(String, Option<String>)>),
}

impl InForce {
    /// Reads and checks files.
    ///
    /// # Errors
    /// As [`SwitchSet::read`].
    pub fn read(paths: &[PathBuf]) -> Result<InForce, ConfigError> {
        let (mut specs, mut documents) = (Vec::new(), Vec::new());
        for path in paths {
            let text = std::fs::read_to_string(path).map_err(|error| {
                ConfigError::new("", format!("cannot be read: {error}")).in_file(path)
            })?;
            specs.push(SwitchSpec::parse(path, &text)?);
            documents.push(table(&text).map_err(|error| error.in_file(path))?);
        }
        Ok(InForce {
            set: SwitchSet::new(specs, paths)?,
            paths: paths.to_vec(),
            documents,
        })
    }

    /// What the files say now.
    ///
    /// # Errors
    /// As [`InForce::read`].
    pub fn read_again(&self) -> Result<InForce, ConfigError> {
        InForce::read(&self.paths)
    }

    /// The same with one switch edited, by all of `edits`.
    ///
    /// # Errors
    /// What is wrong with the result, by its key.
    pub fn edited(&self, switch: usize, edits: &[Edit]) -> Result<InForce, ConfigError> {
        let mut new = self.clone();
        let Some(document) = new.documents.get_mut(switch) else {
            return Err(ConfigError::new("", "there is no such switch"));
        };
        for edit in edits {
            apply(document, edit)?;
        }
        // Lines would be those of a text that nobody has written.
        let unplaced = |mut error: ConfigError| {
            (error.file, error.line) = (None, None);
            error
        };
        let text = toml::to_string(document)
            .map_err(|error| ConfigError::new("", format!("cannot be written: {error}")))?;
        let spec = SwitchSpec::parse(Path::new(""), &text).map_err(unplaced)?;
        let mut specs = self.set.switches.clone();
        specs[switch] = spec;
        new.set = SwitchSet::new(specs, &self.paths).map_err(unplaced)?;
        Ok(new)
    }

    /// What `new` changes, one sentence each: `leaf0: spray.policy: jsq2 -> random`.
    ///
    /// # Errors
    /// Names the first key that cannot change while switches run, with the cure.
    pub fn changes(&self, new: &InForce) -> Result<Vec<String>, ConfigError> {
        let refuse = |key: &str, why: &str| Err(ConfigError::new(key, why));
        if self.set.switches.len() != new.set.switches.len() {
            return refuse("", "other switches need a restart");
        }
        let mut changes = Vec::new();
        for (index, (old, now)) in self.documents.iter().zip(&new.documents).enumerate() {
            let (spec, new_spec) = (&self.set.switches[index], &new.set.switches[index]);
            let differences = keys::differences(&keys::flat(old), &keys::flat(now));
            if keys::fixed_part(spec) != keys::fixed_part(new_spec) {
                let fixed = differences.iter().find(|(key, ..)| !keys::can_change(key));
                let (key, what) = match fixed {
                    Some((key, old, new)) => (key.as_str(), format!("{old} -> {new}")),
                    None => ("", "what is derived from its keys".to_owned()),
                };
                let message = format!(
                    "{what} cannot change while {} runs, and nothing was changed; restart it, or \
                     take the old value",
                    spec.name
                );
                let file = self
                    .paths
                    .get(index)
                    .map_or(Path::new(""), PathBuf::as_path);
                return Err(ConfigError::new(key, message).in_file(file));
            }
            let is_paper = spec.config.measurement.is_paper;
            let of_windows = |key: &str| key.starts_with("measurement") || key.starts_with("spray");
            for (key, old, new) in differences.iter().filter(|(key, ..)| keys::can_change(key)) {
                if is_paper && of_windows(key) {
                    let message = "the paper's protocol has no close that could end the windows that \
                                   run; restart, or take protocol default";
                    return refuse(key, message);
                }
                changes.push(format!("{}: {key}: {old} -> {new}", spec.name));
            }
        }
        Ok(changes)
    }

    /// The number of the switch of that name or role; the only one, if none is named.
    ///
    /// # Errors
    /// Names those that there are.
    pub fn find(&self, name: Option<&str>) -> Result<usize, String> {
        let names: Vec<&str> = (self.set.switches.iter())
            .map(|spec| spec.name.as_str())
            .collect();
        match name {
            None if names.len() == 1 => Ok(0),
            None => Err(format!("name one of its switches: {}", names.join(", "))),
            Some(name) => match names.iter().position(|own| *own == name) {
                Some(index) => Ok(index),
                None => Err(match nearest(name, names.iter().copied()) {
                    Some(meant) => {
                        format!("no switch is called \"{name}\"; did you mean \"{meant}\"?")
                    }
                    None => format!(
                        "no switch is called \"{name}\"; there are {}",
                        names.join(", ")
                    ),
                }),
            },
        }
    }
}

fn table(text: &str) -> Result<Table, ConfigError> {
    toml::from_str(text).map_err(|error| ConfigError::new("", error.message().to_owned()))
}

/// A value as people type it: a number or truth where it reads as one, else a text.
fn value(text: &str) -> Value {
    let read = format!("v = {text}").parse::<Table>().ok();
    let read = read.and_then(|mut table| table.remove("v"));
    match read {
        Some(value @ (Value::Integer(_) | Value::Boolean(_) | Value::Array(_))) => value,
        Some(Value::String(text)) => Value::String(text),
        _ => Value::String(text.to_owned()),
    }
}

fn apply(document: &mut Table, edit: &Edit) -> Result<(), ConfigError> {
    match edit {
        Edit::Key(key, to) => set_key(document, key, to.as_deref()),
        Edit::Route(prefix, to) => set_route(document, prefix, to.as_deref()),
        Edit::Host(address, place) => set_host(document, address, place.as_ref()),
    }
}

fn set_key(document: &mut Table, key: &str, to: Option<&str>) -> Result<(), ConfigError> {
    let wrong = || ConfigError::new(key, "is no key; write it like measurement.evidence");
    let (part, name) = key.split_once('.').ok_or_else(wrong)?;
    let part = document
        .entry(part)
        .or_insert_with(|| Value::Table(Table::new()));
    let part = part.as_table_mut().ok_or_else(wrong)?;
    match to {
        Some(text) => part.insert(name.to_owned(), value(text)),
        None => part.remove(name),
    };
    Ok(())
}

/// The tables of a list such as `[[route]]`; an absent one is made.
fn list<'a>(document: &'a mut Table, key: &str) -> Result<&'a mut Vec<Value>, ConfigError> {
    let list = document
        .entry(key)
        .or_insert_with(|| Value::Array(Vec::new()));
    list.as_array_mut()
        .ok_or_else(|| ConfigError::new(key, "is no list"))
}

fn text_of<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key)?.as_str()
}

fn set_route(document: &mut Table, prefix: &str, to: Option<&str>) -> Result<(), ConfigError> {
    let routes = list(document, "route")?;
    let known = routes.len();
    routes.retain(|route| text_of(route, "prefix") != Some(prefix));
    let Some(to) = to else {
        if routes.len() == known {
            let message =
                format!("no route has prefix {prefix}; see the file, or `spraycheck check`");
            return Err(ConfigError::new("route", message));
        }
        return Ok(());
    };
    let kind = if to.starts_with("spine") {
        "spine"
    } else {
        "leaf"
    };
    let mut route = Table::new();
    route.insert("prefix".to_owned(), Value::String(prefix.to_owned()));
    route.insert(kind.to_owned(), Value::String(to.to_owned()));
    routes.push(Value::Table(route));
    Ok(())
}

fn set_host(
    document: &mut Table,
    address: &str,
    place: Option<&(String, Option<String>)>,
) -> Result<(), ConfigError> {
    let mut is_known = false;
    let mut is_placed = false;
    for port in list(document, "port")? {
        let name = text_of(port, "name").unwrap_or_default().to_owned();
        let Some(port) = port.as_table_mut() else {
            continue;
        };
        let hosts = list(port, "hosts")?;
        let known = hosts.len();
        hosts.retain(|host| text_of(host, "address") != Some(address));
        is_known |= hosts.len() < known;
        if let Some((_, mac)) = place.filter(|(to, _)| *to == name) {
            let mut host = Table::new();
            host.insert("address".to_owned(), Value::String(address.to_owned()));
            if let Some(mac) = mac {
                host.insert("mac".to_owned(), Value::String(mac.clone()));
            }
            hosts.push(Value::Table(host));
            is_placed = true;
        }
        if hosts.is_empty() && known == 0 {
            port.remove("hosts");
        }
    }
    match place {
        None if !is_known => {
            let message = format!("no host has address {address}; see `spraycheck show neighbors`");
            Err(ConfigError::new("port.hosts", message))
        }
        Some((port, _)) if !is_placed => {
            let message = format!("there is no port \"{port}\"; see `spraycheck show ports`");
            Err(ConfigError::new("port.name", message))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
