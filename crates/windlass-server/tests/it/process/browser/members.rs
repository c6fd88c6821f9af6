//! Members: who may let people in, what they may do then, and that a person of several tenants can change between them.

use serde_json::json;
use windlass_server::auth::Role;

use super::chrome::Chrome;
use super::world::{PASSWORD, World};

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_admin_adds_a_member_changes_their_role_and_removes_them() {
    let world = World::quiet().await;
    let admin = world.server.client(world.acme, Role::TenantAdmin).await;
    let chrome = Chrome::open(&world.server.base).await;
    chrome.sign_in(&admin.token.clone().unwrap()).await;
    chrome.click("#rail a[href='/ui/members']").await;
    chrome.until_text("main", "No members").await;
    chrome.click("main a[href='/ui/members/new']").await;
    // What is wrong is said, and what was typed is still there.
    chrome.fill("#f-email", "ada@acme.example").await;
    chrome.fill("#f-name", "Ada Byron").await;
    chrome.fill("#f-password", "short").await;
    chrome.click("button[value=save]").await;
    chrome.until_text("main .note", "assword").await;
    assert_eq!(chrome.find("#f-email").await.value().await.unwrap().as_deref(), Some("ada@acme.example"));
    chrome.fill("#f-password", PASSWORD).await;
    chrome.click("button[value=save]").await;
    chrome.until_text("#toasts", "ada@acme.example is a member now").await;

    chrome.script("document.querySelector('tbody select').value = 'operator'").await;
    chrome.click("tbody button[value=role]").await;
    chrome.until_text("#toasts", "ada@acme.example is operator now").await;
    let roles = admin.get("/api/v1/admin/members").await.expect(200);
    assert_eq!(roles["members"][0]["role"], "operator");
    assert_eq!(roles["members"][0]["name"], "Ada Byron", "a new role leaves the rest");

    chrome.click("tbody button[name=remove]").await;
    chrome.until_text("#confirm", "ada@acme.example loses sight of this tenant").await;
    chrome.click("#confirm button.yes").await;
    chrome.until_text("#toasts", "Removed ada@acme.example").await;
    chrome.until_text("main", "No members").await;
    assert_eq!(admin.get("/api/v1/admin/members").await.expect(200)["members"], json!([]));
    let acts = admin.get("/api/v1/admin/audit").await.expect(200).to_string();
    assert!(acts.contains("member.put") && acts.contains("member.remove"), "{acts}");
    chrome.close().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_of_two_tenants_signs_in_and_changes_between_them() {
    let world = World::busy().await;
    for (tenant, role) in [(world.acme, "viewer"), (world.globex, "tenant_admin")] {
        let admin = world.server.client(tenant, Role::TenantAdmin).await;
        let member = json!({"email": "ada@example.test", "role": role, "password": PASSWORD});
        admin.post("/api/v1/admin/members", &member).await.expect(201);
    }
    let chrome = Chrome::open(&world.server.base).await;
    chrome.go("/ui/sign-in").await;
    chrome.fill("#email", "ada@example.test").await;
    chrome.fill("#password", PASSWORD).await;
    chrome.click("form button.main").await;
    chrome.until("they are in", async || chrome.path().await == "/ui/jobs").await;

    let look_at = async |tenant: uuid::Uuid, name: &str| {
        chrome.click(".tenant summary").await;
        chrome.click(&format!("#tenant-list button[value='{tenant}']")).await;
        chrome.until_text(".tenant summary", name).await;
    };
    look_at(world.globex, "Globex Archive").await;
    assert!(chrome.has("a[href='/ui/jobs/new']").await, "a tenant admin there");
    look_at(world.acme, "Acme Photos").await;
    assert!(!chrome.has("a[href='/ui/jobs/new']").await, "a viewer here");
    // A tenant they are no member of stays closed, whatever they send.
    assert_eq!(chrome.post("/ui/tenant", &format!("tenant={}", world.initech)).await, 200);
    chrome.go("/ui/jobs").await;
    assert!(!chrome.text(".tenant summary").await.contains("Initech"));
    chrome.close().await;
    world.end().await;
}
