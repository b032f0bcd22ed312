package aws_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws"
	"github.com/nephele-io/nephele/internal/platform/egress"
)

// recorder is a server that notes what it is sent.
type recorder struct {
	*httptest.Server
	mu   sync.Mutex
	sent []string
}

// record starts a recorder that answers with answer.
func record(t *testing.T, answer http.HandlerFunc) *recorder {
	t.Helper()
	r := &recorder{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(io.LimitReader(req.Body, 1<<20))
		r.mu.Lock()
		r.sent = append(r.sent, fmt.Sprint(req.Method, " ", req.URL, " ", req.Header, " ", string(body)))
		r.mu.Unlock()
		req.Body = io.NopCloser(bytes.NewReader(body))
		answer(w, req)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *recorder) received() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sent
}

// identities set the environment of a process that has an identity of its own, each in another way.
func identities(t *testing.T) map[string]func(t *testing.T) {
	t.Helper()
	granted := fmt.Sprintf(`{"Code":"Success","AccessKeyId":"ASIAOURS","SecretAccessKey":"hidden","Token":"hidden-too","Expiration":%q}`,
		time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	none := func(t *testing.T) {
		t.Helper()
		for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION", "AWS_WEB_IDENTITY_TOKEN_FILE",
			"AWS_ROLE_ARN", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_STS"} {
			t.Setenv(name, "") // so that it is set again at the end
			if err := os.Unsetenv(name); err != nil {
				t.Fatal(err)
			}
		}
		home := t.TempDir()
		t.Setenv("HOME", home)
		t.Setenv("AWS_CONFIG_FILE", filepath.Join(home, "none"))
		t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(home, "none"))
		t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	}
	return map[string]func(t *testing.T){
		"keys in the environment": func(t *testing.T) {
			none(t)
			t.Setenv("AWS_ACCESS_KEY_ID", "AKIAOURS")
			t.Setenv("AWS_SECRET_ACCESS_KEY", "hidden")
		},
		"web identity": func(t *testing.T) {
			none(t)
			token := filepath.Join(t.TempDir(), "token")
			if err := os.WriteFile(token, []byte("the-token-of-the-pod"), 0o600); err != nil {
				t.Fatal(err)
			}
			t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", token)
			t.Setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/controller")
		},
		"container": func(t *testing.T) {
			none(t)
			platform := record(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, granted) })
			t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", platform.URL+"/creds")
			t.Setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "the-token-of-the-container")
		},
		"instance": func(t *testing.T) {
			none(t)
			metadata := record(t, func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.Method == http.MethodPut:
					w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "60")
					_, _ = io.WriteString(w, "session")
				case strings.HasSuffix(r.URL.Path, "/security-credentials/"):
					_, _ = io.WriteString(w, "controller")
				default:
					_, _ = io.WriteString(w, granted)
				}
			})
			t.Setenv("AWS_EC2_METADATA_DISABLED", "false")
			t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", metadata.URL)
		},
	}
}

// TestIdentityNeverGoesToAnEndpoint: a tenant names a role and an endpoint of its own, and gets
// nothing of the identity of the process: no token, no key id, no signature. That the namespace may
// use this identity changes nothing.
func TestIdentityNeverGoesToAnEndpoint(t *testing.T) {
	for name, set := range identities(t) {
		t.Run(name, func(t *testing.T) {
			set(t)
			hostile := record(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "thank you", http.StatusForbidden) })
			ambient, err := aws.LoadAmbient(t.Context(), "cluster")
			if err != nil {
				t.Fatal(err)
			}
			anywhere, err := egress.Parse([]string{egress.Loopback})
			if err != nil {
				t.Fatal(err)
			}
			for granted, own := range map[string]*aws.Ambient{"granted": ambient, "not granted": nil} {
				_, err := aws.New(aws.Config{
					Credential: v1alpha1.AWSCredential{RoleArn: "arn:aws:iam::123456789012:role/tenant"},
					Region:     region, Endpoint: hostile.URL, MaxAttempts: 1, Allowed: &anywhere, Ambient: own, Cluster: "cluster", Account: "tenant/account",
				})
				wantNotGranted(t, granted, err, "never shown to a configured endpoint")
				_, err = aws.New(aws.Config{
					Credential: v1alpha1.AWSCredential{RoleArn: "arn:aws:iam::123456789012:role/tenant"},
					Region:     region, MaxAttempts: 1, Allowed: &anywhere, Ambient: ambient, Cluster: "cluster", Account: "tenant/account",
					Queues: []aws.Queue{{URL: hostile.URL + "/123456789012/q"}},
				})
				wantNotGranted(t, "a queue", err, "is not one of AWS")
			}
			if got := hostile.received(); len(got) > 0 {
				t.Errorf("the endpoint of the tenant was sent %q", got)
			}
		})
	}
}

func wantNotGranted(t *testing.T, what string, err error, text string) {
	t.Helper()
	var notGranted *cloud.NotGrantedError
	if !errors.As(err, &notGranted) || !strings.Contains(err.Error(), text) {
		t.Errorf("%s: %v; want what is not granted, with %q", what, err, text)
	}
}

// TestIdentityMustBeGranted: without the flag, and with an external id of the tenant's choice, a
// role is not assumed for it.
func TestIdentityMustBeGranted(t *testing.T) {
	t.Parallel()
	cfg := aws.Config{
		Credential: v1alpha1.AWSCredential{RoleArn: "arn:aws:iam::123456789012:role/tenant"}, Region: region, Cluster: "cluster", Account: "tenant/account",
	}
	_, err := aws.New(cfg)
	wantNotGranted(t, "without the flag", err, "--ambient-identity-namespaces tenant")
	cfg.Ambient = &aws.Ambient{Config: awssdk.Config{Credentials: noIdentity()}}
	if _, err := aws.New(cfg); err != nil {
		t.Error(err)
	}
	cfg.Credential.ExternalID = "of-my-choice"
	if _, err := aws.New(cfg); err == nil || !strings.Contains(err.Error(), "let the role demand "+aws.ExternalID("cluster", "tenant/account")) {
		t.Errorf("an external id of the tenant's choice: %v", err)
	}
	cfg.Credential.AccessKeyID, cfg.Credential.AccessKeySecret, cfg.Ambient = "AKIA", "s", nil
	if _, err := aws.New(cfg); err != nil {
		t.Errorf("with keys of the tenant's own: %v", err)
	}
}

// TestNames: the external id and the session belong to one account of one cluster.
func TestNames(t *testing.T) {
	t.Parallel()
	const cluster = "0d1c2b3a-4f5e-6d7c-8b9a-0f1e2d3c4b5a"
	seen := map[string]string{}
	for _, c := range [][2]string{{cluster, "a/b-c"}, {cluster, "a-b/c"}, {cluster, "a/b"}, {"another", "a/b"}, {"", "a/b"}, {cluster + "a", "/b"}} {
		id := aws.ExternalID(c[0], c[1])
		if other, known := seen[id]; known || !regexp.MustCompile(`^nephele-[0-9a-f]{32}$`).MatchString(id) {
			t.Errorf("%s: %s, as %s", c, id, other)
		}
		seen[id] = c[1]
	}
	long := strings.Repeat("n", 60) + "/" + strings.Repeat("a", 253)
	for _, c := range []struct{ cluster, account, want string }{
		{cluster, "team/prod", "nephele-0d1c2b3a-team-prod"},
		{cluster, "team/prod.eu-1", "nephele-0d1c2b3a-team-prod.eu-1"},
		{"abc", "team/prod", "nephele-abc-team-prod"},
		{"a b/c:d!e", "team/prod", "nephele-a_b_c_d_-team-prod"},
		{"", "", "nephele"},
		{cluster, long, ""},
		{cluster, long + "b", ""},
	} {
		got := aws.SessionName(c.cluster, c.account)
		if c.want != "" && got != c.want || !regexp.MustCompile(`^[\w+=,.@-]{2,64}$`).MatchString(got) || !strings.HasPrefix(got, "nephele") {
			t.Errorf("%s %s: %q; want %q", c.cluster, c.account, got, c.want)
		}
	}
	if aws.SessionName(cluster, long) == aws.SessionName(cluster, long+"b") {
		t.Error("two accounts have one session")
	}
}

// TestLoadAmbient finds every identity of a process, and proves it nowhere but at the place that
// the environment names.
func TestLoadAmbient(t *testing.T) {
	for name, set := range identities(t) {
		t.Run(name, func(t *testing.T) {
			set(t)
			sts := record(t, func(w http.ResponseWriter, _ *http.Request) {
				_, _ = fmt.Fprintf(w, `<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>ASIAOURS</AccessKeyId>
					<SecretAccessKey>hidden</SecretAccessKey><SessionToken>t</SessionToken><Expiration>%s</Expiration></Credentials>
					</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
			})
			t.Setenv("AWS_ENDPOINT_URL_STS", sts.URL)
			ambient, err := aws.LoadAmbient(t.Context(), "0123456789")
			if err != nil {
				t.Fatal(err)
			}
			if len(sts.received()) > 0 {
				t.Error("called something before it was asked to")
			}
			got, err := ambient.Credentials.Retrieve(t.Context())
			if err != nil || !strings.HasSuffix(got.AccessKeyID, "IAOURS") || got.SecretAccessKey != "hidden" {
				t.Errorf("%s, %v", got.AccessKeyID, err)
			}
			sent := strings.Join(sts.received(), "\n")
			if name == "web identity" != strings.Contains(sent, "RoleSessionName=nephele-01234567&") {
				t.Errorf("sent %q", sent)
			}
		})
	}
	t.Run("the older metadata service", func(t *testing.T) {
		identities(t)["instance"](t)
		metadata := record(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPut {
				http.NotFound(w, r)
				return
			}
			_, _ = io.WriteString(w, "controller")
		})
		t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", metadata.URL)
		ambient, err := aws.LoadAmbient(t.Context(), "c")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := ambient.Credentials.Retrieve(t.Context()); err == nil {
			t.Errorf("got %s without a session", got.AccessKeyID)
		}
		for _, sent := range metadata.received() {
			if strings.HasPrefix(sent, "GET ") {
				t.Errorf("asked without a session: %s", sent)
			}
		}
	})
}

// TestAmbientFollowsItsEnvironment: with its own identity the process goes where its operator sends
// it, which is not AWS here; and the account's session tells whose it is.
func TestAmbientFollowsItsEnvironment(t *testing.T) {
	identities(t)["keys in the environment"](t)
	place := record(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) })
	t.Setenv("AWS_ENDPOINT_URL", place.URL)
	ambient, err := aws.LoadAmbient(t.Context(), "cluster")
	if err != nil {
		t.Fatal(err)
	}
	none, err := egress.Parse(nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg := aws.Config{Credential: v1alpha1.AWSCredential{RoleArn: "arn:aws:iam::123456789012:role/tenant"}, Region: region, MaxAttempts: 1,
		Allowed: &none, Ambient: ambient, Cluster: "cluster", Account: "tenant/account", Queues: []aws.Queue{{URL: place.URL + "/123456789012/q"}}}
	p, err := aws.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Observe(t.Context(), cloud.Scope{Account: "tenant/account", Region: region}); cloud.ClassOf(err) != cloud.Auth {
		t.Error(err)
	}
	sent := strings.Join(place.received(), "\n")
	for _, want := range []string{"Credential=AKIAOURS/", "Action=AssumeRole&", "RoleSessionName=nephele-cluster-tenant-account&", "ExternalId=" + aws.ExternalID("cluster", "tenant/account")} {
		if !strings.Contains(sent, want) {
			t.Errorf("%s is missing in %s", want, sent)
		}
	}
	// Keys of the tenant's own do not follow the operator's environment.
	cfg.Ambient, cfg.Queues = nil, nil
	cfg.Credential = v1alpha1.AWSCredential{AccessKeyID: "AKIATENANT", AccessKeySecret: "s"}
	client := &anywhere{}
	cfg.Client = client
	if p, err = aws.New(cfg); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Observe(
		t.Context(),
		cloud.Scope{Account: "tenant/account", Region: region},
	); err == nil ||
		!slices.Equal(client.hosts, []string{"sts.us-west-2.amazonaws.com"}) {
		t.Errorf("%v; the tenant's keys went to %q", err, client.hosts)
	}
}

// TestRedirectsAreNotFollowed: the server at an endpoint cannot send our requests elsewhere.
func TestRedirectsAreNotFollowed(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		elsewhere := record(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "thank you", http.StatusForbidden) })
		endpoint := record(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, status) })
		p, err := aws.New(aws.Config{
			Credential: v1alpha1.AWSCredential{AccessKeyID: "AKIA", AccessKeySecret: "s"}, Region: region, Endpoint: endpoint.URL, MaxAttempts: 1,
		})
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.Observe(t.Context(), cloud.Scope{Account: "tenant/account", Region: region})
		if err == nil || len(endpoint.received()) == 0 || len(elsewhere.received()) > 0 {
			t.Errorf("%d: error %v; sent elsewhere: %q", status, err, elsewhere.received())
		}
	}
}
