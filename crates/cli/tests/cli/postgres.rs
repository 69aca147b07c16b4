//! A PostgreSQL database that a test has to itself.

use tokio_postgres::NoTls;

pub struct Database {
    pub url: String,
    name: String,
}

impl Database {
    pub fn create() -> Self {
        let server = server_url();
        // Unlike any other: an id of ours has the time and chance in it.
        let name = omoi_protocol::TaskId::generate().to_string().replace('-', "_");
        execute(&server, &format!("CREATE DATABASE {name}"));
        let (rest, _) = server.rsplit_once('/').unwrap();
        Self { url: format!("{rest}/{name}"), name }
    }

    pub fn execute(&self, sql: &str) {
        execute(&self.url, sql);
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        execute(&server_url(), &format!("DROP DATABASE {} WITH (FORCE)", self.name));
    }
}

fn server_url() -> String {
    let url = std::env::var("OMOI_TEST_POSTGRES");
    url.expect("OMOI_TEST_POSTGRES names a PostgreSQL server; `make test` starts one")
}

fn execute(url: &str, sql: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
        let driving = tokio::spawn(connection);
        client.batch_execute(sql).await.unwrap();
        drop(client);
        driving.await.unwrap().unwrap();
    });
}
