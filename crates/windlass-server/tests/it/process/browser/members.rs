//! Members: who may invite people, how they accept, what they may do then, and that a person of several tenants can switch between them.

use serde_json::json;
use windlass_server::auth::Role;

use super::chrome::Chrome;
use super::world::World;
use crate::support::people::PASSWORD;

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_admin_invites_a_person_changes_their_role_and_removes_them() {
    let world = World::quiet().await;
    let admin = world.server.client(world.acme, Role::TenantAdmin).await;
    let chrome = Chrome::open(&world.server.base).await;
    chrome.sign_in(&admin.token.clone().unwrap()).await;
    chrome.click("#sidebar a[href='/ui/members']").await;
    chrome.until_text("main", "No members").await;
    chrome.click("main a[href='/ui/members/new']").await;
    // The error is shown, and the input is kept.
    chrome.fill("#f-email", "ada@acme").await;
    chrome.script("document.querySelector('#f-email').type = 'text'; document.querySelector('#f-email').value = 'ada at acme'").await;
    chrome.click("button[value=save]").await;
    chrome.until_text("#f-email-wrong", "must be an email address").await;
    assert_eq!(chrome.find("#f-email").await.value().await.unwrap().as_deref(), Some("ada at acme"));
    chrome.fill("#f-email", "ada@acme.example").await;
    chrome.click("button[value=save]").await;
    chrome.until_text("main", "It is not shown again").await;
    let link = chrome.text("#secret").await;
    crate::support::secrets::issued(link.rsplit('/').next().unwrap());
    let path = link.trim_start_matches(&world.server.base).to_owned();
    chrome.go("/ui/members").await;
    chrome.until_text("main", "Open invitations").await;
    chrome.until_text("main", "ada@acme.example").await;

    // A person who is signed in as someone else gets a message, and signs out there.
    chrome.go(&path).await;
    chrome.until_text("main", "This invitation is for ada@acme.example").await;
    chrome.click("button[value=sign-out]").await;
    chrome.until_text("main", "I need an account").await;
    chrome.fill("#name", "Ada Byron").await;
    chrome.script("document.querySelector('#new').removeAttribute('minlength')").await;
    chrome.fill("#new", "short").await;
    chrome.click("button[value=create]").await;
    chrome.until_text("#wrong", "assword").await;
    assert_eq!(chrome.find("#name").await.value().await.unwrap().as_deref(), Some("Ada Byron"));
    chrome.fill("#new", PASSWORD).await;
    chrome.click("button[value=create]").await;
    chrome.until_text("#toasts", "You are now a member of Acme Photos").await;
    chrome.go(&path).await;
    chrome.until_text("main", "he invitation is no longer valid").await;

    // They change their password.
    chrome.go("/ui/jobs").await;
    chrome.click(".who summary").await;
    chrome.click(".who a[href='/ui/account']").await;
    chrome.fill("#current", "wrong horse battery").await;
    chrome.fill("#new", "another good password").await;
    chrome.click("main button.main").await;
    chrome.until_text("main .note", "is not correct").await;
    chrome.fill("#current", PASSWORD).await;
    chrome.fill("#new", "another good password").await;
    chrome.click("main button.main").await;
    chrome.until_text("#toasts", "Password changed").await;

    chrome.sign_in(&admin.token.clone().unwrap()).await;
    chrome.go("/ui/members").await;
    chrome.script("document.querySelector('tbody select').value = 'operator'").await;
    chrome.click("tbody button[value=role]").await;
    chrome.until_text("#toasts", "ada@acme.example is now operator").await;
    let roles = admin.get("/api/v1/admin/members").await.expect(200);
    assert_eq!(roles["members"][0]["role"], "operator");
    assert_eq!(roles["members"][0]["name"], "Ada Byron", "a new role changes nothing else");

    // A link to reset the password, which works once.
    chrome.click("tbody button[name=reset]").await;
    chrome.until_text("main", "It is not shown again").await;
    let link = chrome.text("#secret").await;
    crate::support::secrets::issued(link.rsplit('/').next().unwrap());
    chrome.go(link.trim_start_matches(&world.server.base)).await;
    chrome.fill("#new", "a third good password").await;
    chrome.click("main button.main").await;
    chrome.until_text("main", "Password changed").await;

    chrome.go("/ui/members").await;
    chrome.click("tbody button[name=remove]").await;
    chrome.until_text("#confirm", "ada@acme.example and the tokens that they created lose access").await;
    chrome.click("#confirm button.yes").await;
    chrome.until_text("#toasts", "Removed ada@acme.example").await;
    chrome.until_text("main", "No members").await;
    assert_eq!(admin.get("/api/v1/admin/members").await.expect(200)["members"], json!([]));
    let acts = admin.get("/api/v1/admin/audit").await.expect(200).to_string();
    for act in
        ["invitation.create", "invitation.accept", "member.role", "password.reset_link", "member.remove"]
    {
        assert!(acts.contains(act), "{act}: {acts}");
    }
    chrome.close().await;
    world.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_of_two_tenants_signs_in_and_switches_tenants() {
    let world = World::busy().await;
    for (tenant, role) in [(world.acme, "viewer"), (world.globex, "tenant_admin")] {
        world.server.member(tenant, "ada@example.test", role).await;
    }
    let chrome = Chrome::open(&world.server.base).await;
    chrome.go("/ui/sign-in").await;
    chrome.fill("#email", "ada@example.test").await;
    chrome.fill("#password", PASSWORD).await;
    chrome.click("form button.main").await;
    chrome.until("they are signed in", async || chrome.path().await == "/ui/jobs").await;

    let look_at = async |tenant: uuid::Uuid, name: &str| {
        chrome.click(".tenant summary").await;
        chrome.click(&format!("#tenant-list button[value='{tenant}']")).await;
        chrome.until_text(".tenant summary", name).await;
    };
    look_at(world.globex, "Globex Archive").await;
    assert!(chrome.has("a[href='/ui/jobs/new']").await, "a tenant admin there");
    look_at(world.acme, "Acme Photos").await;
    assert!(!chrome.has("a[href='/ui/jobs/new']").await, "a viewer here");
    // A tenant that they are not a member of stays inaccessible, whatever they send.
    assert_eq!(chrome.post("/ui/tenant", &format!("tenant={}", world.initech)).await, 403);
    chrome.go("/ui/jobs").await;
    assert!(chrome.text(".tenant summary").await.contains("Acme Photos"));
    // Removed from the current one, they choose again, and nothing was done in another tenant.
    let remove = "delete from windlass.members where tenant_id = $1";
    world.server.queue.client().await.execute(remove, &[&world.acme]).await.unwrap();
    chrome.go("/ui/jobs").await;
    chrome.until_text("main", "You are no longer a member of the selected tenant").await;
    chrome.click(&format!("button[value='{}']", world.globex)).await;
    chrome.until_text(".tenant", "Globex Archive").await;
    chrome.close().await;
    world.end().await;
}
