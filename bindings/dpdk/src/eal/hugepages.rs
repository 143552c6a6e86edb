//! How many hugepages the kernel has free, from `/proc/meminfo`.
//!
//! Called by `Eal::init`, apart from the argument derivation so that the latter stays pure.

/// Free hugepages of the kernel's default size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FreeHugepages {
    /// How many are free.
    pub pages: u64,
    /// Bytes of one.
    pub page_bytes: u64,
}

impl FreeHugepages {
    /// Reads the kernel's figures; no readable file counts as no hugepages.
    pub fn read() -> Self {
        std::fs::read_to_string("/proc/meminfo")
            .map_or_else(|_| Self::default(), |t| Self::parse(&t))
    }

    /// Their total in MiB.
    pub fn mib(self) -> u64 {
        self.pages.saturating_mul(self.page_bytes) >> 20
    }

    fn parse(meminfo: &str) -> Self {
        let value = |key: &str| {
            meminfo
                .lines()
                .find_map(|line| line.strip_prefix(key))
                .and_then(|rest| rest.split_whitespace().next())
                .and_then(|number| number.parse::<u64>().ok())
                .unwrap_or(0)
        };
        Self {
            pages: value("HugePages_Free:"),
            page_bytes: value("Hugepagesize:") * 1024,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The two lines are found among others, and the page size is in kB.
    #[test]
    fn parses_meminfo() {
        let text = "MemFree: 1 kB\nHugePages_Total: 8\nHugePages_Free:       6\n\
                    Hugepagesize:       2048 kB\n";
        let free = FreeHugepages::parse(text);
        assert_eq!((free.pages, free.mib()), (6, 12));
        assert_eq!(FreeHugepages::parse("").mib(), 0);
    }
}
