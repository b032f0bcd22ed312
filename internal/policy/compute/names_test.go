package compute

import (
	"testing"

	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/selectors"
)

func TestGroupNames(t *testing.T) {
	sel := func(labels map[string]string, reqs ...policy.Requirement) *selectors.Selector {
		var errs policy.ErrorList
		s := selectors.Compile(&policy.Selector{MatchLabels: labels, MatchExpressions: reqs}, "", &errs)
		if len(errs.List) > 0 {
			t.Fatal(errs.List)
		}
		return s
	}
	for _, c := range []struct {
		terms      selectors.Terms
		normalized string
		name       string
	}{
		{selectors.Terms{Namespace: "default", Pod: sel(map[string]string{"app": "web"})},
			"namespace=default And podSelector=app=web", "0f4789f6-6f28-5440-8ad4-46d8ac276643"},
		{selectors.Terms{Namespace: "default", Pod: sel(nil)},
			"namespace=default And podSelector=", "b72edd42-0f24-5ec4-a7a7-ecd0e323b822"},
		{selectors.Terms{Namespaces: sel(nil)}, "namespaceSelector=", "946d5846-ff34-5a8c-ab0b-2c6c271b0778"},
		{selectors.Terms{Namespace: "vm-ns", External: sel(map[string]string{"role": "db"})},
			"eeSelector=role=db And namespace=vm-ns", "9a47b91d-76f1-5b82-a456-3816a3514090"},
		{selectors.Terms{
			Namespace: "ignored",
			Namespaces: sel(nil, policy.Requirement{Key: "z", Operator: "NotIn", Values: []string{"q"}}, policy.Requirement{Key: "y", Operator: "DoesNotExist", Values: nil},
				policy.Requirement{Key: "x", Operator: "Exists", Values: nil}, policy.Requirement{Key: "env", Operator: "In", Values: []string{"prod", "dev"}}),
			Pod: sel(map[string]string{"b": "2", "a": "1"}),
		}, "namespaceSelector=env in (dev,prod),x,!y,z notin (q) And podSelector=a=1,b=2", "889cd58c-a22f-5229-9efc-b2f3d2e228fc"},
		{selectors.Terms{Node: sel(map[string]string{"kubernetes.io/os": "linux"})},
			"nodeSelector=kubernetes.io/os=linux", "f35996bd-1192-5415-b013-98f442d4793f"},
		{selectors.Terms{Namespace: "ns1", Pod: selectors.OneLabel(selectors.Label{Key: selectors.ServiceAccountLabel, Value: "sa-1"})},
			"namespace=ns1 And podSelector=internal.antrea.io/service-account=sa-1", "f7f9558f-41ec-5116-9658-e7e9ff2c76ea"},
		{selectors.Terms{}, "", "31af5b53-f968-5320-bebf-b3f831eca2ab"},
	} {
		if got := c.terms.Normalized(); got != c.normalized {
			t.Errorf("normalized name %q, want %q", got, c.normalized)
		}
		if got := groupUUID(c.normalized); got != c.name {
			t.Errorf("name of %q is %s, want %s", c.normalized, got, c.name)
		}
	}
	if got, want := groupUUID("ns-1/svc-1"), "3893eb02-5536-519a-8814-dea5aad130d1"; got != want {
		t.Errorf("name of the group of a Service is %s, want %s", got, want)
	}
}
