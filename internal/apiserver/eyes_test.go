package apiserver

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
)

// TestEyes: a caller with the right to ask for the groups of a Namespace sees what is there, and of
// other Namespaces what he may ask for there; an answer that cannot be had is no yes.
func TestEyes(t *testing.T) {
	asked := 0
	access := authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		asked++
		if a.GetVerb() != "get" || a.GetAPIGroup() != v1beta2.GroupName || a.GetResource() != "groupmembers" || a.GetSubresource() != "" || a.GetName() != "" || !a.IsResourceRequest() {
			t.Errorf("asked about %v", a)
		}
		switch {
		case a.GetNamespace() == "unsure":
			return authorizer.DecisionNoOpinion, "", errors.New("away")
		case a.GetUser().GetName() == "admin" || a.GetNamespace() == "friend":
			return authorizer.DecisionAllow, "", nil
		}
		return authorizer.DecisionNoOpinion, "", nil
	})
	for name, want := range map[string]map[string]bool{
		"tenant": {"own": true, "friend": true, "other": false, "": false, "unsure": false}, "admin": {"own": true, "other": true, "": true, "unsure": true}, "": {"own": false},
	} {
		ctx := t.Context()
		if name != "" {
			ctx = request.WithUser(ctx, &user.DefaultInfo{Name: name})
		}
		seen, failed := eyes{access}.seen(ctx, "groupmembers", "own")
		for range 3 {
			for ns, may := range want {
				if seen(ns) != may {
					t.Errorf("%s sees %q: %t", name, ns, !may)
				}
			}
		}
		if wrong := failed() != nil; wrong != (name != "admin") {
			t.Errorf("%s: %v", name, failed())
		}
	}
	if asked != 5 { // for the tenant about all Namespaces and three others, for the administrator once
		t.Errorf("asked %d times", asked)
	}
	seen, _ := eyes{access}.seen(request.WithUser(t.Context(), &user.DefaultInfo{Name: "tenant"}), "groupmembers", "own")
	asked = 0
	for n := range 2 * mostAsked {
		seen(string(rune('a'+n%26)) + string(rune('a'+n/26%26)) + string(rune('a'+n/676)))
	}
	if asked >= mostAsked {
		t.Errorf("asked %d times for one answer", asked)
	}
}
