//! Lists of faults and links, as files and JSON hold them.

use std::fmt;

use detector::Link;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::fault::{FaultError, LinkFault, read_faults, read_links};

/// Faults of links; in text `none` stands for no fault and a cable for both of its links.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
#[serde(transparent)]
pub struct FaultList(pub Vec<LinkFault>);

/// Links; in text a cable stands for both of its links.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(transparent)]
pub struct LinkList(pub Vec<Link>);

impl FaultList {
    /// The faults that such texts say together.
    pub fn read<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<FaultList, FaultError> {
        let mut faults = Vec::new();
        for text in texts {
            faults.extend(read_faults(text)?);
        }
        Ok(FaultList(faults))
    }
}

impl LinkList {
    /// The links that such texts say together, each once.
    pub fn read<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<LinkList, FaultError> {
        let mut links = Vec::new();
        for text in texts {
            links.extend(read_links(text)?);
        }
        links.sort_unstable();
        links.dedup();
        Ok(LinkList(links))
    }
}

impl<'de> Deserialize<'de> for FaultList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<FaultList, D::Error> {
        let texts = Vec::<String>::deserialize(deserializer)?;
        FaultList::read(texts.iter().map(String::as_str)).map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for LinkList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<LinkList, D::Error> {
        let texts = Vec::<String>::deserialize(deserializer)?;
        LinkList::read(texts.iter().map(String::as_str)).map_err(D::Error::custom)
    }
}

/// The items with commas between, or `none`.
fn show(f: &mut fmt::Formatter<'_>, items: &[impl fmt::Display]) -> fmt::Result {
    match items {
        [] => f.write_str("none"),
        [first, rest @ ..] => {
            write!(f, "{first}")?;
            rest.iter().try_for_each(|item| write!(f, ", {item}"))
        }
    }
}

impl fmt::Display for FaultList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(f, &self.0)
    }
}

impl fmt::Display for LinkList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(f, &self.0)
    }
}
