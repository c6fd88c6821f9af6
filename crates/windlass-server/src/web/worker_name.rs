//! The short name of a worker: its host, its process id and the end of its unique part. The name of a pull worker without its
//! tenant.

use uuid::Uuid;

/// `vm:27556:ba40` for `vm:27556:d47ffb04-…-92ce1b50ba40`; a name of another form is returned unchanged.
pub(crate) fn brief(name: &str) -> String {
    let name = match name.rsplit_once('@') {
        Some((own, tenant)) if Uuid::try_parse(tenant).is_ok() => own,
        _ => name,
    };
    match name.rsplit_once(':') {
        Some((before, id)) if Uuid::try_parse(id).is_ok() => format!("{before}:{}", &id[id.len() - 4..]),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::brief;

    #[test]
    fn only_uuids_are_shortened() {
        assert_eq!(brief("vm:27556:d47ffb04-09aa-4ac4-882c-92ce1b50ba40"), "vm:27556:ba40");
        assert_eq!(brief("host-7:4211:worker"), "host-7:4211:worker");
        assert_eq!(brief("mac-mini-3@d47ffb04-09aa-4ac4-882c-92ce1b50ba40"), "mac-mini-3");
        assert_eq!(brief("mac-mini-3@pull"), "mac-mini-3@pull");
        assert_eq!(brief("ü"), "ü");
    }
}
