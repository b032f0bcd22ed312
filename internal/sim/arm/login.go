package arm

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nephele-io/nephele/internal/sim/azure"
	"github.com/nephele-io/nephele/internal/sim/azure/document"
)

// tokenLife is how long a token is good.
const tokenLife = time.Hour

// loginError is a refusal of the login, in the form of OAuth 2.
type loginError struct {
	status            int
	name, description string
	number            int // of the AADSTS message
}

// Error implements error.
func (e *loginError) Error() string { return e.name + ": " + e.description }

func loginf(status int, name string, number int, description string) *loginError {
	return &loginError{status, name, "AADSTS" + strconv.Itoa(number) + ": " + description, number}
}

func (e *loginError) document(id string, now time.Time) any {
	return map[string]any{
		"error": e.name, "error_description": e.description, "error_codes": []int{e.number}, "timestamp": now.UTC().Format("2006-01-02 15:04:05Z"),
		"trace_id": id, "correlation_id": id,
	}
}

// login is the side of a Handler that authenticates: it issues tokens and reads them.
type login struct {
	h   *Handler
	key [sha256.Size]byte // signs tokens
}

// tenant finds a tenant by id or domain.
func (l login) tenant(name string) (azure.Tenant, error) {
	var all []azure.Tenant
	l.h.read(func(c *azure.Cloud) { all = c.Tenants() })
	for _, t := range all {
		if strings.EqualFold(t.ID, name) || t.Domain != "" && strings.EqualFold(t.Domain, name) {
			return t, nil
		}
	}
	return azure.Tenant{}, loginf(http.StatusBadRequest, "invalid_tenant", 90002, "Tenant '"+name+"' not found. Check to make sure you have the correct tenant ID "+
		"and are signing into the correct cloud.")
}

func (l login) openID(req *request, name string) (answer, error) {
	t, err := l.tenant(name)
	if err != nil {
		return answer{}, err
	}
	base := "https://" + req.Host + "/" + t.ID
	return ok(map[string]any{
		"issuer": base + "/v2.0", "authorization_endpoint": base + "/oauth2/v2.0/authorize", "token_endpoint": base + "/oauth2/v2.0/token",
		"device_authorization_endpoint": base + "/oauth2/v2.0/devicecode", "jwks_uri": base + "/discovery/v2.0/keys", "tenant_region_scope": "WW",
		"token_endpoint_auth_methods_supported": []string{"client_secret_post", "private_key_jwt", "client_secret_basic"},
		"response_types_supported":              []string{"code", "id_token"}, "subject_types_supported": []string{"pairwise"},
		"id_token_signing_alg_values_supported": []string{"RS256"}, "scopes_supported": []string{"openid", "profile", "email", "offline_access"},
	}), nil
}

// federation represents the tenant in the path of a login by federation services, which knows none:
// whose tenant it is, the client tells. Older versions of the az command line ask Microsoft about
// any other login than this one.
const federation = "adfs"

func (l login) openIDOfFederation(req *request) (answer, error) {
	base := "https://" + req.Host + "/" + federation
	return ok(map[string]any{
		"issuer": base, "authorization_endpoint": base + "/oauth2/authorize", "token_endpoint": base + "/oauth2/token",
		"device_authorization_endpoint": base + "/oauth2/devicecode", "jwks_uri": base + "/discovery/keys",
		"token_endpoint_auth_methods_supported": []string{"client_secret_post"}, "response_types_supported": []string{"code", "id_token"},
		"subject_types_supported": []string{"pairwise"}, "id_token_signing_alg_values_supported": []string{"RS256"}, "scopes_supported": []string{"openid"},
	}), nil
}

// clientOf finds an application, and its tenant if the login is of none.
func (l login) clientOf(tenant, client string) (p azure.Principal, t azure.Tenant, err error) {
	if tenant != federation {
		if t, err = l.tenant(tenant); err != nil {
			return p, t, err
		}
	}
	p, found := l.principal(func(p azure.Principal) bool {
		return strings.EqualFold(p.ClientID, client) && (tenant == federation || strings.EqualFold(p.Tenant, t.ID)) && p.Managed == ""
	})
	switch {
	case !found:
		return p, t, loginf(http.StatusBadRequest, "unauthorized_client", 700016, "Application with identifier '"+client+"' was not found in the directory '"+t.ID+"'.")
	case p.Disabled:
		return p, t, loginf(http.StatusUnauthorized, "unauthorized_client", 7000112, "Application '"+client+"' is disabled.")
	case tenant == federation:
		t, err = l.tenant(p.Tenant)
	}
	return p, t, err
}

// instance tells clients that ask whether this login is one: it is.
func (l login) instance(req *request) (answer, error) {
	endpoint := req.URL.Query().Get("authorization_endpoint")
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" {
		return answer{}, loginf(http.StatusBadRequest, "invalid_instance", 50049, "Unknown or invalid instance.")
	}
	tenant, _, _ := strings.Cut(strings.Trim(u.Path, "/"), "/")
	return ok(map[string]any{
		"tenant_discovery_endpoint": "https://" + req.Host + "/" + tenant + "/v2.0/.well-known/openid-configuration", "api-version": "1.1",
		"metadata": []any{map[string]any{"preferred_network": req.Host, "preferred_cache": req.Host, "aliases": []string{req.Host}}},
	}), nil
}

// endpoints describes the cloud, for the az command line.
func (l login) endpoints(req *request) (answer, error) {
	self := "https://" + req.Host
	one := map[string]any{
		"name":                     "Nephele",
		"resourceManager":          self,
		"resourceManagerEndpoint":  self,
		"management":               self,
		"microsoftGraphResourceId": self,
		"authentication": map[string]any{
			"loginEndpoint":    self,
			"audiences":        []string{"https://management.core.windows.net/", "https://management.azure.com/"},
			"tenant":           "common",
			"identityProvider": "AAD",
		},
		"suffixes": map[string]any{},
	}
	if req.URL.Query().Get("api-version") >= "2019" {
		return ok([]any{one}), nil
	}
	return ok(one), nil
}

// token answers a request for a token: client credentials with a secret, or with an assertion.
func (l login) token(req *request, name string) (answer, error) {
	if req.Method != http.MethodPost {
		return answer{}, loginf(http.StatusBadRequest, "invalid_request", 900561, "The endpoint only accepts POST requests.")
	}
	form, err := url.ParseQuery(string(req.body))
	if err != nil {
		return answer{}, loginf(http.StatusBadRequest, "invalid_request", 900144, "The request body cannot be read.")
	}
	if grant := form.Get("grant_type"); grant != "client_credentials" {
		return answer{}, loginf(http.StatusBadRequest, "unsupported_grant_type", 70003, "The app requested an unsupported grant type '"+grant+"'.")
	}
	client := form.Get("client_id")
	p, t, err := l.clientOf(name, client)
	if err != nil {
		return answer{}, err
	}
	switch {
	case form.Get("client_assertion") != "":
		if kind := form.Get("client_assertion_type"); kind != "urn:ietf:params:oauth:client-assertion-type:jwt-bearer" {
			return answer{}, loginf(http.StatusBadRequest, "invalid_request", 50027, "The type of the assertion is '"+kind+"'.")
		}
		if err := l.checkAssertion(req, p, t, form.Get("client_assertion")); err != nil {
			return answer{}, err
		}
	case form.Get("client_secret") != "":
		if !slices.Contains(p.Secrets, form.Get("client_secret")) {
			return answer{}, loginf(http.StatusUnauthorized, "invalid_client", 7000215, "Invalid client secret provided. Ensure the secret being sent in the request is "+
				"the client secret value, not the client secret ID, for a secret added to app '"+client+"'.")
		}
	default:
		return answer{}, loginf(http.StatusUnauthorized, "invalid_client", 7000218, "The request body must contain the following parameter: 'client_assertion' or 'client_secret'.")
	}
	audience := ""
	for _, s := range strings.Fields(form.Get("scope")) {
		if a, isDefault := strings.CutSuffix(s, "/.default"); isDefault {
			audience = a
		}
	}
	if audience == "" {
		return answer{}, loginf(http.StatusBadRequest, "invalid_scope", 1002012, "The provided value for scope "+form.Get("scope")+" is not valid. Client credential flows "+
			"must have a scope value with /.default suffixed to the resource identifier (application ID URI).")
	}
	seconds := int(tokenLife/time.Second) - 1
	return ok(map[string]any{
		"token_type": "Bearer", "expires_in": seconds, "ext_expires_in": seconds, "access_token": l.mint(p, audience),
	}), nil
}

func (l login) principal(wanted func(azure.Principal) bool) (azure.Principal, bool) {
	var all []azure.Principal
	l.h.read(func(c *azure.Cloud) { all = c.Principals() })
	for _, p := range all {
		if wanted(p) {
			return p, true
		}
	}
	return azure.Principal{}, false
}

// identityToken is the metadata service: it gives the token of a managed identity to any process on
// the machine.
func (l login) identityToken(req *request) (answer, error) {
	q := req.URL.Query()
	refuse := func(description string) (answer, error) {
		return answer{}, &loginError{http.StatusBadRequest, "invalid_request", description, 0}
	}
	switch {
	case req.TLS != nil:
		return refuse("The metadata service is not reached by TLS.")
	case !strings.EqualFold(req.Header.Get("Metadata"), "true"):
		return refuse("Required metadata header not specified.")
	case q.Get("resource") == "":
		return refuse("Required query variable 'resource' is missing.")
	}
	p, found := l.principal(func(p azure.Principal) bool {
		switch {
		case p.Managed == "" || p.Disabled:
			return false
		case q.Get("client_id") != "":
			return strings.EqualFold(p.ClientID, q.Get("client_id"))
		case q.Get("object_id") != "":
			return strings.EqualFold(p.ObjectID, q.Get("object_id"))
		case q.Get("msi_res_id") != "" || q.Get("mi_res_id") != "":
			return strings.EqualFold(p.Managed, q.Get("msi_res_id")+q.Get("mi_res_id"))
		}
		return p.System
	})
	if !found {
		return refuse("Identity not found")
	}
	now := l.h.cfg.WallClock()
	return ok(map[string]any{
		"access_token": l.mint(p, strings.TrimSuffix(q.Get("resource"), "/")), "client_id": p.ClientID, "resource": q.Get("resource"), "token_type": "Bearer",
		"expires_in": strconv.Itoa(int(tokenLife / time.Second)), "ext_expires_in": strconv.Itoa(int(tokenLife / time.Second)),
		"expires_on": strconv.FormatInt(now.Add(tokenLife).Unix(), 10), "not_before": strconv.FormatInt(now.Unix(), 10),
	}), nil
}

// claims are what an access token says.
type claims struct {
	Audience string `json:"aud"`
	Tenant   string `json:"tid"`
	Client   string `json:"appid"`
	Object   string `json:"oid"`
	Expires  int64  `json:"exp"`
	Issued   int64  `json:"iat"`
}

var encoding = base64.RawURLEncoding

// mint makes an access token. It is good until the simulated time is over its end, also after a
// restart.
func (l login) mint(p azure.Principal, audience string) string {
	now := l.h.cfg.Clock()
	raw, err := json.Marshal(claims{audience, p.Tenant, p.ClientID, p.ObjectID, now.Add(tokenLife).Unix(), now.Unix()})
	if err != nil {
		return "" // the claims are always encodable
	}
	head := encoding.EncodeToString([]byte(`{"typ":"JWT","alg":"HS256"}`)) + "." + encoding.EncodeToString(raw)
	return head + "." + encoding.EncodeToString(l.seal(head))
}

func (l login) seal(text string) []byte {
	m := hmac.New(sha256.New, l.key[:])
	m.Write([]byte(text))
	return m.Sum(nil)
}

// authenticate finds the principal of a call to Resource Manager.
func (l login) authenticate(req *request) (azure.Principal, error) {
	if l.h.cfg.NoAuth {
		p, _ := l.principal(func(azure.Principal) bool { return true })
		return p, nil
	}
	refuse := func(code, message string) (azure.Principal, error) {
		return azure.Principal{}, document.Refuse(http.StatusUnauthorized, code, "%s", message)
	}
	scheme, token, _ := strings.Cut(req.Header.Get("Authorization"), " ")
	if token == "" || !strings.EqualFold(scheme, "Bearer") {
		return refuse("AuthenticationFailed", "Authentication failed. The 'Authorization' header is missing.")
	}
	var c claims
	head, signature, _ := cutLast(token, ".")
	_, middle, _ := strings.Cut(head, ".")
	raw, err := encoding.DecodeString(middle)
	sum, err2 := encoding.DecodeString(signature)
	if err != nil || err2 != nil || !hmac.Equal(sum, l.seal(head)) || json.Unmarshal(raw, &c) != nil {
		return refuse("InvalidAuthenticationToken", "The access token is invalid.")
	}
	if now := l.h.cfg.Clock(); now.Unix() >= c.Expires {
		return refuse(
			"ExpiredAuthenticationToken",
			"The access token expiry UTC time '"+time.Unix(c.Expires, 0).UTC().Format("1/2/2006 3:04:05 PM")+"' is earlier than current UTC time '"+
				now.UTC().Format("1/2/2006 3:04:05 PM")+"'.",
		)
	}
	allowed := append([]string{"https://management.azure.com", "https://management.core.windows.net", "https://" + req.Host}, l.h.cfg.Audiences...)
	if !slices.ContainsFunc(allowed, func(a string) bool {
		return strings.EqualFold(strings.Trim(a, "/"), strings.Trim(c.Audience, "/"))
	}) {
		return refuse("InvalidAuthenticationTokenAudience", "The access token has been obtained for wrong audience or resource '"+c.Audience+
			"'. It should exactly match with one of the allowed audiences '"+strings.Join(allowed, "','")+"'.")
	}
	p, found := l.principal(func(p azure.Principal) bool { return p.ClientID == c.Client && p.Tenant == c.Tenant && !p.Disabled })
	if !found {
		return refuse("InvalidAuthenticationToken", "The principal of the access token is not there any more.")
	}
	return p, nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
