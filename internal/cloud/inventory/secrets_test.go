package inventory

import (
	"context"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
)

// countingReader counts what is read, and refuses what refuse says.
type countingReader struct {
	client.Reader
	gets   int
	refuse error
}

func (r *countingReader) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	r.gets++
	if r.refuse != nil {
		return r.refuse
	}
	return r.Reader.Get(ctx, key, o, opts...)
}

// TestSecretsOfOtherNamespaces: the controller looks for keys only where it is told to. An account
// that names a Secret elsewhere learns what is missing and how to give it, and not whether there is
// such a Secret.
func TestSecretsOfOtherNamespaces(t *testing.T) {
	t.Parallel()
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "aws", errors.New("no rule allows it"))
	for name, c := range map[string]struct {
		namespaces []string
		refuse     error
		gets       bool
		want       string
	}{
		"not listed":        {[]string{"web", "other"}, nil, false, "--secret-namespaces: add clouds to it, and bind ClusterRole nephele-controller-secrets in that namespace"},
		"without the right": {[]string{"clouds"}, forbidden, true, "bind ClusterRole nephele-controller-secrets in that namespace"},
		"no right anywhere": {nil, forbidden, true, "bind ClusterRole nephele-controller-secrets in that namespace"},
		"listed":            {[]string{"web", "clouds"}, nil, true, ""},
		"all":               {nil, nil, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var said []string
			for _, exists := range []bool{true, false} {
				l := newLab(t)
				reader := &countingReader{Reader: l.api, refuse: c.refuse}
				l.inv.opts.Secrets, l.inv.opts.SecretNamespaces = reader, c.namespaces
				l.create(l.cpa(), l.ces("web", "all", wholeVPC(vpc1)))
				if exists {
					l.create(l.secret(goodCreds))
				}
				l.reconcile()
				if reader.gets > 0 != c.gets {
					t.Errorf("the Secret was read %d times", reader.gets)
				}
				st := l.account().Status
				if c.want == "" {
					want := map[bool]string{true: "True OK", false: "False SecretNotFound"}[exists]
					if got := condition(st.Conditions, v1alpha1.ConditionCredentialsValid); got != want {
						t.Errorf("exists %t: %s %s", exists, got, st.Error)
					}
					continue
				}
				said = append(said, st.Error)
				for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionCredentialsValid} {
					if got := condition(st.Conditions, kind); got != "False NotGranted" || !strings.Contains(st.Error, c.want) {
						t.Errorf("%s: %s: %s", kind, got, st.Error)
					}
				}
			}
			if len(said) == 2 && said[0] != said[1] {
				t.Errorf("whether there is a Secret can be told from %q and %q", said[0], said[1])
			}
		})
	}
}

// TestSecretTakenBack: what is enforced stays when the controller may no longer read the keys, and
// comes back to life with the right.
func TestSecretTakenBack(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.create(l.secret(goodCreds), l.cpa(), l.ces("web", "all", wholeVPC(vpc1)))
	l.reconcile()
	before := len(l.vms())
	l.inv.opts.SecretNamespaces = []string{"elsewhere"}
	l.reconcile()
	l.wantAccount("False NotGranted", "False NotGranted", "False NotGranted", "--secret-namespaces")
	if _, ok := l.inv.Provider("clouds/acc"); ok {
		t.Error("the account is used without the right to its Secret")
	}
	if after := len(l.vms()); before == 0 || after != before {
		t.Errorf("%d VMs, before %d", after, before)
	}
	l.inv.opts.SecretNamespaces = []string{"clouds"}
	l.reconcile()
	l.wantAccount("True OK", "True OK", "True OK", "")
}
