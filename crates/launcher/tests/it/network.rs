//! No way out but the doors.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use crate::needs;
use crate::sandbox::{Place, has_python, is_root};

#[test]
fn nothing_leaves_and_the_host_s_loopback_is_another() {
    needs!(is_root(), "root");
    needs!(has_python(), "/usr/bin/python3");
    let host = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = host.local_addr().unwrap().port();
    let place = Place::new();
    let (sandbox, other) = (place.start(&place.plan()), place.start(&place.plan()));
    let script = format!(
        "import socket, errno\n\
         def attempt(name, work):\n\
         \x20 try: work(); print(name, 'worked')\n\
         \x20 except OSError as error: print(name, errno.errorcode.get(error.errno, type(error).__name__))\n\
         def udp(address): socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', address)\n\
         attempt('tcp', lambda: socket.create_connection(('1.1.1.1', 443), 5))\n\
         attempt('metadata', lambda: socket.create_connection(('169.254.169.254', 80), 5))\n\
         attempt('udp', lambda: udp(('8.8.8.8', 53)))\n\
         attempt('host', lambda: socket.create_connection(('127.0.0.1', {port}), 5))\n\
         attempt('dns', lambda: socket.getaddrinfo('example.com', 443))\n\
         print([name for _, name in socket.if_nameindex()])"
    );
    let said = sandbox.python(&script).text;
    assert_eq!(
        said,
        "tcp ENETUNREACH\nmetadata ENETUNREACH\nudp ENETUNREACH\nhost ECONNREFUSED\ndns gaierror\n['lo']\n",
        "{said}"
    );
    drop(other);
}

#[test]
fn a_door_is_served_from_outside_again_and_again() {
    needs!(is_root(), "root");
    needs!(has_python(), "/usr/bin/python3");
    let place = Place::new();
    let sandbox = place.start(&place.plan());
    // Each round is a server that fetches the door, serves once, and is gone.
    for round in ["first", "second"] {
        let (door, listener) = sandbox.control().doors().unwrap().remove(0);
        assert_eq!((door.name.as_str(), door.port), ("api", 8080));
        let said = std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                let mut asked = [0; 5];
                stream.read_exact(&mut asked).unwrap();
                assert_eq!(&asked, b"hello");
                stream.write_all(round.as_bytes()).unwrap();
            });
            sandbox.python(
                "import socket\ns = socket.create_connection(('127.0.0.1', 8080), 20)\ns.sendall(b'hello')\nprint(s.recv(99).decode())",
            )
        });
        assert_eq!(said.text, format!("{round}\n"));
    }
    let said = sandbox.python("import socket\ntry: socket.create_server(('127.0.0.1', 8080))\nexcept OSError as error: print(error)");
    assert!(said.text.contains("Address already in use"), "{}", said.text);
}
