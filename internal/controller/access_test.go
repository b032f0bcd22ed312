package controller

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws"
	"github.com/nephele-io/nephele/internal/cloud/inventory"
	"github.com/nephele-io/nephele/internal/controller/clouds"
	"github.com/nephele-io/nephele/internal/kinds"
	"github.com/nephele-io/nephele/internal/sim"
	simaws "github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/estate"
)

// office is an inventory over a stand-in of the API server, with the providers that the controller
// would make.
type office struct {
	*testing.T
	api client.Client
	inv *inventory.Inventory
}

func newOffice(t *testing.T, access clouds.Access) *office {
	t.Helper()
	scheme, err := kinds.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	accounts, err := clouds.Open(t.Context(), clouds.Table(), clouds.Parts{Cluster: "cluster", Access: access, Paced: true})
	if err != nil {
		t.Fatal(err)
	}
	o := &office{T: t, api: indexed(scheme).WithStatusSubresource(&cloudv1.CloudProviderAccount{}).Build()}
	o.inv = inventory.New(inventory.Options{Client: o.api, Secrets: o.api, Events: noEvents{}, ExternalID: clouds.ExternalIDs(clouds.Table(), "cluster"), Clouds: accounts})
	return o
}

// indexed begins a client that finds the objects of an account, as that of a manager does.
func indexed(scheme *runtime.Scheme) *fake.ClientBuilder {
	b := fake.NewClientBuilder().WithScheme(scheme)
	for _, o := range inventory.Indexed() {
		b.WithIndex(o, inventory.FieldAccount, inventory.AccountOf)
	}
	return b
}

// noEvents drops events.
type noEvents struct{}

func (noEvents) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {}

// open makes an account with a Secret, unless that is empty, and returns it as it is after it was
// read.
func (o *office) open(namespace, endpoint, secret string) *cloudv1.CloudProviderAccount {
	o.Helper()
	key := types.NamespacedName{Namespace: namespace, Name: "account"}
	if secret != "" {
		if err := o.api.Create(
			o.Context(),
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "s"}, Data: map[string][]byte{"k": []byte(secret)}},
		); err != nil {
			o.Fatal(err)
		}
	}
	account := &cloudv1.CloudProviderAccount{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
		Spec: cloudv1.CloudProviderAccountSpec{AWSConfig: &cloudv1.CloudProviderAccountAWSConfig{
			Region: []string{"us-west-2"}, Endpoint: endpoint, SecretRef: &cloudv1.SecretReference{Namespace: namespace, Name: "s", Key: "k"}}}}
	if err := o.api.Create(o.Context(), account); err != nil {
		o.Fatal(err)
	}
	return o.read(namespace)
}

// read lets the inventory read an account once more.
func (o *office) read(namespace string) *cloudv1.CloudProviderAccount {
	o.Helper()
	key := types.NamespacedName{Namespace: namespace, Name: "account"}
	if _, err := o.inv.Reconcile(o.Context(), reconcile.Request{NamespacedName: key}); err != nil {
		o.Fatal(err)
	}
	account := &cloudv1.CloudProviderAccount{}
	if err := o.api.Get(o.Context(), key, account); err != nil {
		o.Fatal(err)
	}
	return account
}

// want checks Ready and CredentialsValid, "status reason", and that Ready says something.
func (o *office) want(a *cloudv1.CloudProviderAccount, ready, credentials, message string) {
	o.Helper()
	for kind, want := range map[string]string{cloudv1.ConditionReady: ready, cloudv1.ConditionCredentialsValid: credentials} {
		c := meta.FindStatusCondition(a.Status.Conditions, kind)
		if c == nil || string(c.Status)+" "+c.Reason != want || kind == cloudv1.ConditionReady && !strings.Contains(c.Message, message) {
			o.Errorf("%s: %s is %+v; want %s: %s", a.Namespace, kind, c, want, message)
		}
	}
}

const (
	roleOnly = `{"roleArn": "arn:aws:iam::111122223333:role/tenant"}`
	refused  = "False NotGranted"
)

// TestTenantsGetNoIdentity: accounts of tenants that reach for the controller's identity say what
// is missing, in the words of the flag, and the endpoint of none is called.
func TestTenantsGetNoIdentity(t *testing.T) {
	plainEnvironment(t)
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIAOURS")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "hidden")
	hostile := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		t.Errorf("the endpoint of a tenant was sent %v %s", r.Header, body)
	}))
	t.Cleanup(hostile.Close)

	o := newOffice(t, clouds.LocalAccess())
	a := o.open("tenant", "", roleOnly)
	o.want(a, refused, refused, "have the controller started with --ambient-identity-namespaces tenant")
	if want := aws.ExternalID("cluster", "tenant/account"); a.Status.ExternalID != want {
		t.Errorf("external id %q; want %s, for the role's owner to demand", a.Status.ExternalID, want)
	}
	o.want(o.open("sly", hostile.URL, roleOnly), refused, refused, "never shown to a configured endpoint")
	o.want(o.open("slyer", "", `{"roleArn": "arn:aws:iam::111122223333:role/tenant", "externalId": "mine"}`), refused, refused, "--ambient-identity-namespaces slyer")
	if a := o.open("early", "", ""); a.Status.ExternalID != aws.ExternalID("cluster", "early/account") {
		t.Errorf("an account without a Secret yet shows the external id %q", a.Status.ExternalID)
	}

	o = newOffice(t, clouds.Access{AmbientNamespaces: []string{"tenant", "sly"}})
	o.want(o.open("sly", hostile.URL, roleOnly), refused, refused, "never shown to a configured endpoint")
	o.want(
		o.open("tenant", "", `{"roleArn": "arn:aws:iam::111122223333:role/tenant", "externalId": "mine"}`),
		"False SecretInvalid",
		"False SecretInvalid",
		"let the role demand nephele-",
	)
	o.want(o.open("other", "", roleOnly), refused, refused, "--ambient-identity-namespaces other")
	a = o.open("keys", hostile.URL, `{"accessKeyId": "AKIA", "accessKeySecret": "s", "externalId": "mine", "roleArn": "arn:aws:iam::111122223333:role/tenant"}`)
	o.want(a, refused, refused, "the controller allows none by --allowed-endpoints")
	if a.Status.ExternalID != aws.ExternalID("cluster", "keys/account") {
		t.Errorf("the external id %q tells what the Secret holds", a.Status.ExternalID)
	}
}

// plainEnvironment is that of a process without any identity.
func plainEnvironment(t *testing.T) {
	t.Helper()
	none := filepath.Join(t.TempDir(), "none")
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN",
		"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_ENDPOINT_URL_STS"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_CONFIG_FILE", none)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", none)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
}

// TestRoleThatDemandsTheExternalID: the owner of a role reads the external id in the status,
// demands it, and is served; another account of the same controller that names the role is not.
func TestRoleThatDemandsTheExternalID(t *testing.T) {
	plainEnvironment(t)
	state, _, err := estate.HybridCloud()
	if err != nil {
		t.Fatal(err)
	}
	account := state.Accounts[0].ID
	t.Setenv("AWS_ACCESS_KEY_ID", estate.DefaultAccessKeyID)
	t.Setenv("AWS_SECRET_ACCESS_KEY", estate.DefaultSecret)
	secret := `{"roleArn": "arn:aws:iam::` + account + `:role/nephele"}`
	shown := newOffice(t, clouds.Access{}).open("owner", "", secret).Status.ExternalID

	state.Roles = append(state.Roles, simaws.Role{Account: account, Name: "nephele", Trusted: []string{account}, ExternalID: shown})
	server, err := sim.Start(t.Context(), sim.Options{State: state})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	t.Setenv("AWS_ENDPOINT_URL", server.URL())
	o := newOffice(t, clouds.Access{AmbientNamespaces: []string{"*"}})
	a := o.open("owner", "", secret)
	o.want(a, "True OK", "True OK", "")
	if a.Status.ExternalID != shown || shown == "" {
		t.Errorf("the external id is %q, and was %q", a.Status.ExternalID, shown)
	}
	o.want(o.open("thief", "", secret), "False AuthFailed", "False AuthFailed", "AccessDenied")
}

// TestTooMuch: an account that has more to say than is listened to says which bound it is, and the
// others go on.
func TestTooMuch(t *testing.T) {
	state, _, err := estate.HybridCloud()
	if err != nil {
		t.Fatal(err)
	}
	server, err := sim.Start(t.Context(), sim.Options{State: state})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	huge := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("Action") == "GetCallerIdentity" {
			_, _ = io.WriteString(w, "<R><GetCallerIdentityResult><Account>111122223333</Account></GetCallerIdentityResult></R>")
			return
		}
		_, err := io.WriteString(w, "<R><vpcSet>")
		for err == nil {
			_, err = io.WriteString(w, strings.Repeat("<item/>", 1000))
		}
	}))
	t.Cleanup(huge.Close)
	access := clouds.LocalAccess()
	access.Bounds = cloud.Bounds{AnswerBytes: 1 << 20}
	o := newOffice(t, access)
	keys := `{"accessKeyId": "` + estate.DefaultAccessKeyID + `", "accessKeySecret": "` + estate.DefaultSecret + `"}`
	a := o.open("huge", huge.URL, keys)
	o.want(a, "False TooLarge", "Unknown Pending", "the answer takes more than 1048576 bytes, the bound that --max-answer-bytes sets")
	if !strings.Contains(a.Status.Regions[0].LastError, "--max-answer-bytes") {
		t.Errorf("the region says %q", a.Status.Regions[0].LastError)
	}
	o.want(o.open("small", server.URL(), keys), "True OK", "True OK", "")
}
