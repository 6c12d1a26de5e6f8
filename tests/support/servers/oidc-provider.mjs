// An OpenID Connect provider (npm: oidc-provider) with one client, and with users whose claims the caller names.
// Its own pages for development ask for a name and take any password.
const options = JSON.parse(process.argv[2]);
const { default: Provider } = await import(options.module);
const provider = new Provider(options.issuer, {
  clients: [{ ...options.client, response_types: ['code'], grant_types: ['authorization_code'] }],
  pkce: { required: () => true },
  scopes: ['openid', 'profile', 'email'],
  claims: { openid: ['sub'], profile: ['preferred_username', 'roles', 'realm_access'], email: ['email'] },
  // As the standard says, the claims of scopes are only at the userinfo endpoint; many providers put them into the token.
  conformIdTokenClaims: !options.claims_in_token,
  findAccount: (_context, id) => ({ accountId: id, claims: () => ({ sub: id, ...options.users[id] }) }),
  cookies: { keys: ['a key of this test'] },
});
provider.listen(new URL(options.issuer).port, '127.0.0.1');
