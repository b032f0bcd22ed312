package preflight

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/version"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/api/generated/crd"
	"github.com/nephele-io/nephele/internal/cloud"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// trial is an account that is tried; what it answers is set by each case.
type trial struct {
	denied []string
	used   int
	clock  time.Time
	fails  error
	// services are those that are read, faults what of them is not.
	services []cloud.Service
	faults   []cloud.ServiceFault
}

func (a *trial) Observe(context.Context, cloud.Scope) (*cloud.Snapshot, error) {
	g := cloud.Group{ID: "sg-1", NetworkID: "vpc-1"}
	for range a.used {
		g.Rules = append(g.Rules, cloud.Rule{Direction: cloud.Ingress})
	}
	return &cloud.Snapshot{Networks: []cloud.Network{{ID: "vpc-1"}}, Groups: []cloud.Group{g}, Services: a.services, ServiceFaults: a.faults}, nil
}

func (*trial) Apply(context.Context, cloud.Scope, cloud.Op) (string, error) {
	return "", errors.New("a check changes nothing")
}

func (*trial) Limits(context.Context, cloud.Scope) (cloud.Limits, error) {
	return cloud.Limits{RulesPerGroup: 60, GroupsPerInterface: 5, GroupsPerRegion: 2500}, nil
}

func (a *trial) Probe(_ context.Context, _ cloud.Scope, on *cloud.Snapshot) (cloud.Probed, error) {
	out := cloud.Probed{Trials: []cloud.Trial{{Action: "ec2:DescribeVpcs"}}, CloudTime: a.clock, LocalTime: noon}
	for _, action := range a.denied {
		out.Trials = append(out.Trials, cloud.Trial{Action: action, On: "VPC " + on.Networks[0].ID, Denied: true})
	}
	return out, a.fails
}

// bench is a cluster in which everything is there, and what a case changes of it.
type bench struct {
	objects []client.Object
	account *trial
	date    time.Time
	version string
	may     func(*authorizationv1.ResourceAttributes) bool
	webhook error
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{account: &trial{clock: noon}, date: noon, version: "v1.36.1", may: func(*authorizationv1.ResourceAttributes) bool { return true }}
	for _, d := range definitions(t) {
		b.objects = append(b.objects, d)
	}
	for _, n := range []string{"p", "d"} {
		b.objects = append(
			b.objects,
			&admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: n}},
			&admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: n}},
		)
	}
	b.objects = append(
		b.objects,
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "cloud", Name: "keys"}, Data: map[string][]byte{"k": []byte("planted-credential")}},
		&cloudv1.CloudProviderAccount{
			ObjectMeta: metav1.ObjectMeta{Namespace: "cloud", Name: "real"},
			Spec: cloudv1.CloudProviderAccountSpec{AWSConfig: &cloudv1.CloudProviderAccountAWSConfig{
				Region: []string{"eu-west-1"}, SecretRef: &cloudv1.SecretReference{Namespace: "cloud", Name: "keys", Key: "k"}}},
			Status: cloudv1.CloudProviderAccountStatus{
				Conditions: []metav1.Condition{{Type: cloudv1.ConditionReady, Status: metav1.ConditionTrue, Message: "all regions are read"}},
			},
		},
	)
	return b
}

func definitions(t *testing.T) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	var out []*apiextensionsv1.CustomResourceDefinition
	for _, name := range []string{"crd.cloud.antrea.io_cloudprovideraccounts.yaml", "crd.cloud.antrea.io_vpcs.yaml"} {
		text, err := fs.ReadFile(crd.FS(), name)
		if err != nil {
			t.Fatal(err)
		}
		d := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal(text, d); err != nil {
			t.Fatal(err)
		}
		out = append(out, d)
	}
	return out
}

func (b *bench) run(t *testing.T) []Line {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, cloudv1.AddToScheme, v1beta1.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(b.objects...).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if review, ok := o.(*authorizationv1.SelfSubjectAccessReview); ok {
				review.Status.Allowed = b.may(review.Spec.ResourceAttributes)
				return nil
			}
			return b.webhook
		},
	}).Build()
	return Run(t.Context(), Options{Client: c, Definitions: crd.FS(), Policies: []string{"p"}, Deletion: []string{"d"}, Now: func() time.Time { return noon },
		Rights: []Right{{"", "pods", "list"}, {"crd.cloud.antrea.io", "virtualmachines/status", "update"}}, Role: "some-role",
		Place: func(a *cloudv1.CloudProviderAccount) (*cloudv1.SecretReference, []string) {
			if a.Spec.AWSConfig == nil {
				return nil, nil
			}
			return a.Spec.AWSConfig.SecretRef, a.Spec.AWSConfig.Region
		},
		Open: func(_ *cloudv1.CloudProviderAccount, credentials []byte) (Account, error) {
			if string(credentials) != "planted-credential" {
				t.Errorf("opened with %q", credentials)
			}
			return b.account, nil
		},
		Version: func(context.Context) (*version.Info, http.Header, error) {
			if b.version == "" {
				return nil, nil, errors.New("refused")
			}
			return &version.Info{GitVersion: b.version}, http.Header{"Date": {b.date.Format(http.TimeFormat)}}, nil
		}})
}

func (b *bench) remove(name string) {
	for i, o := range b.objects {
		if o.GetName() == name {
			b.objects = append(b.objects[:i:i], b.objects[i+1:]...)
			return
		}
	}
}

// TestFindings: each fault by itself is a line with the right verdict, and no other case has it.
// Credentials are never shown.
func TestFindings(t *testing.T) {
	missing := len(allDefinitions(t)) - len(definitions(t)) // the bench has only some
	for name, x := range map[string]struct {
		change func(*bench)
		want   string
	}{
		"nothing":                 {func(*bench) {}, "OK account cloud/real eu-west-1 rights: all 1 that were tried are there"},
		"no API server":           {func(b *bench) { b.version = "" }, "FAIL API server: cannot be reached: refused"},
		"an old API server":       {func(b *bench) { b.version = "v1.27.3" }, "FAIL API server: version v1.27.3 has no admission policies"},
		"a clock that is off":     {func(b *bench) { b.date = noon.Add(-10 * time.Minute) }, "FAIL clock and API server: 10m0s apart"},
		"a clock that is behind":  {func(b *bench) { b.date = noon.Add(20 * time.Second) }, "WARN clock and API server: 20s apart"},
		"the cloud's clock":       {func(b *bench) { b.account.clock = noon.Add(6 * time.Minute) }, "FAIL account cloud/real eu-west-1 clock: 6m0s apart"},
		"a definition is missing": {func(b *bench) { b.remove("vpcs.crd.cloud.antrea.io") }, "FAIL definition vpcs.crd.cloud.antrea.io: is not installed"},
		"a definition is older": {func(b *bench) {
			d := b.objects[0].(*apiextensionsv1.CustomResourceDefinition)
			spec := d.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
			delete(spec.Properties, "deletionPolicy")
		}, "FAIL definition cloudprovideraccounts.crd.cloud.antrea.io: is of another version: it lacks v1alpha1.spec.deletionPolicy"},
		"authors are not checked": {func(b *bench) { b.remove("p") }, "FAIL rights of authors: nothing checks"},
		"tiers need a grant":      {func(*bench) {}, "OK tiers before the teams' tiers: policies in emergency, securityops, networkops need a grant"},
		"a tier is anybody's": {func(b *bench) {
			b.objects = append(b.objects, &v1beta1.Tier{ObjectMeta: metav1.ObjectMeta{Name: "emergency"}},
				&v1beta1.Tier{ObjectMeta: metav1.ObjectMeta{Name: "securityops", Labels: map[string]string{"nephele.io/use": "required"}}})
		}, "WARN tiers before the teams' tiers: any author of policies may write into emergency"},
		"no deletion protection": {func(b *bench) { b.remove("d") }, "WARN deletion protection:"},
		"a right is missing": {func(b *bench) {
			b.may = func(a *authorizationv1.ResourceAttributes) bool { return a.Subresource == "" }
		}, "FAIL rights of some-role: missing: update virtualmachines/status.crd.cloud.antrea.io"},
		"IAM actions are missing": {func(b *bench) { b.account.denied = []string{"ec2:CreateTags", "ec2:CreateSecurityGroup"} },
			"FAIL account cloud/real eu-west-1 rights: denied: ec2:CreateTags on VPC vpc-1, ec2:CreateSecurityGroup on VPC vpc-1"},
		"credentials are refused": {func(b *bench) { b.account.fails = errors.New("AuthFailure") }, "FAIL account cloud/real eu-west-1: the credentials are not accepted: AuthFailure"},
		"another quota":           {func(b *bench) { b.account.used = 61 }, "WARN account cloud/real eu-west-1 quotas: there are 61 rules in a group and direction, more than the quota 60"},
		"services are read":       {func(b *bench) { b.account.services = make([]cloud.Service, 3) }, "OK account cloud/real eu-west-1 services: all 3 are read"},
		"services are not read": {func(b *bench) {
			b.account.faults = []cloud.ServiceFault{{API: "RDS", Right: "rds:DescribeDBInstances", Err: &cloud.Error{Class: cloud.Auth, Err: errors.New("denied")}}}
		}, "WARN account cloud/real eu-west-1 services: RDS cannot be read:"},
		"the Secret is missing": {func(b *bench) { b.remove("keys") }, "FAIL account cloud/real credentials: the Secret cloud/keys cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			x.change(b)
			var all strings.Builder
			failed := 0
			for _, l := range b.run(t) {
				fmt.Fprintf(&all, "%s %s: %s\n", l.Verdict, l.About, l.Message)
				if l.Verdict == Fail {
					failed++
				}
			}
			if !strings.Contains(all.String(), x.want) {
				t.Errorf("%q is not in\n%s", x.want, all.String())
			}
			if strings.Contains(all.String(), "planted-credential") {
				t.Error("a credential is shown")
			}
			if want := missing; name == "nothing" && failed != want {
				t.Errorf("%d fail, want the %d definitions that are not installed:\n%s", failed, want, all.String())
			}
		})
	}
}

func allDefinitions(t *testing.T) []string {
	t.Helper()
	names, err := fs.Glob(crd.FS(), "*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return names
}
