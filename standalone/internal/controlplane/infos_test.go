package controlplane

import (
	"context"
	"fmt"
	"os"
	"testing"
	"testing/fstest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
)

// TestInfosOfAgents: of all who share the rights of agents, nobody tells about a host but its own
// agent: on a Node the one whose token is bound to that, elsewhere the one that may enforce for it.
func TestInfosOfAgents(t *testing.T) {
	admin := guarded(t)
	manifest, err := os.ReadFile("../../../config/agents/own-info.yaml")
	mustNot(t, err)
	mustNot(t, server(t).Apply(t.Context(), fstest.MapFS{"own-info.yaml": {Data: manifest}}))
	ns := newNamespace(t, "vms")
	for _, name := range []string{"info-web", "info-db", "info-n1", "info-n2"} {
		mustNot(t, admin.Create(t.Context(), &v1beta1.AntreaAgentInfo{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	as := func(account, node string) client.Client {
		name := "system:serviceaccount:" + ns + ":" + account
		for _, verb := range []string{"get", "update"} {
			give(t, name, "", "crd.antrea.io", "antreaagentinfos", verb)
		}
		return acting(t, func(c *rest.Config) {
			actingAs(c, name)
			if node != "" { // as kube-apiserver says of the token of a Pod
				c.Impersonate.Extra = map[string][]string{"authentication.kubernetes.io/node-name": {node}}
			}
		})
	}
	all, web, node := as("all", ""), as("web", ""), as("node", "info-n1")
	give(t, "system:serviceaccount:"+ns+":web", ns, "controlplane.antrea.io", "enforcers", "enforce", "info-web")
	vm := func(name string) v1beta1.ObjectReference {
		return v1beta1.ObjectReference{Kind: "ExternalNode", Namespace: ns, Name: name}
	}
	host := func(name string) v1beta1.ObjectReference { return v1beta1.ObjectReference{Kind: "Node", Name: name} }
	tells := func(who client.Client, name string, of v1beta1.ObjectReference) func(context.Context) error {
		return func(ctx context.Context) error {
			info := &v1beta1.AntreaAgentInfo{}
			if err := admin.Get(ctx, client.ObjectKey{Name: name}, info); err != nil {
				return err
			}
			info.Version, info.NodeRef = info.Version+"+", of
			return who.Update(ctx, info)
		}
	}
	eventually(t, "the policy is in force", func(ctx context.Context) error {
		info := &v1beta1.AntreaAgentInfo{}
		if err := admin.Get(ctx, client.ObjectKey{Name: "info-web"}, info); err != nil {
			return err
		}
		info.NodeRef = vm("info-web")
		if err := all.Update(ctx, info, client.DryRunAll); !refusedBy(err, "nephele-agent") {
			return fmt.Errorf("for another host: %w", err)
		}
		return nil
	})
	mustDo(t, "the agent of a VM", tells(web, "info-web", vm("info-web")))
	mustDo(t, "the same, by the namespace of its token", tells(web, "info-web", v1beta1.ObjectReference{}))
	mustDo(t, "the agent of a Node", tells(node, "info-n1", host("info-n1")))
	mustDo(t, "an administrator", tells(admin, "info-db", vm("info-db")))
	for what, tell := range map[string]func(context.Context) error{
		"an agent":                                 tells(all, "info-web", vm("info-web")),
		"the same, without saying for whom":        tells(all, "info-web", v1beta1.ObjectReference{}),
		"the same, for a Node":                     tells(all, "info-n1", host("info-n1")),
		"the agent of a VM for another":            tells(web, "info-db", vm("info-db")),
		"the agent of a VM, as if it was its own":  tells(web, "info-db", vm("info-web")),
		"the agent of a VM for a Node":             tells(web, "info-n1", host("info-n1")),
		"the agent of a Node for another":          tells(node, "info-n2", host("info-n2")),
		"the agent of a Node for a VM":             tells(node, "info-web", vm("info-web")),
		"the agent of a Node for a VM of its name": tells(node, "info-n1", vm("info-n1")),
	} {
		mustRefuse(t, what, "nephele-agent", tell, "its own host only")
	}
}
