package aws_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws"
	"github.com/nephele-io/nephele/internal/sim"
	simaws "github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/estate"
)

// TestSessionsTellWhose: the cloud's own records name cluster, namespace and account of every call
// made with a role, and we know our own calls by that, also after a restart, and the calls of
// another account with the same role as not ours.
func TestSessionsTellWhose(t *testing.T) {
	t.Parallel()
	state, _, err := estate.HybridCloud()
	if err != nil {
		t.Fatal(err)
	}
	account := state.Accounts[0].ID
	state.Roles = append(state.Roles, simaws.Role{Account: account, Name: "shared", Trusted: []string{account}})
	l := newLab(t, sim.Options{State: state, Events: sim.EventOptions{Queue: "events"}})
	open := func(name string, queues ...aws.Queue) *aws.Provider {
		return l.open(aws.Config{Cluster: "0d1c2b3a-4f5e", Account: "team/" + name, Queues: queues, Credential: v1alpha1.AWSCredential{
			AccessKeyID: estate.DefaultAccessKeyID, AccessKeySecret: estate.DefaultSecret, RoleArn: "arn:aws:iam::" + account + ":role/shared"}})
	}
	heard := l.listen(open("prod", l.queue()))
	for name, ours := range map[string]bool{"prod": true, "test": false} {
		op := cloud.Op{Kind: cloud.OpTag, Target: network, Tags: map[string]string{"by": name}}
		if _, err := open(name).Apply(t.Context(), l.scope(), op); err != nil {
			t.Fatal(err)
		}
		session := ":assumed-role/shared/nephele-0d1c2b3a-team-" + name
		l.eventually("the call of "+name+" is heard of", func() bool {
			return slices.ContainsFunc(heard.take(), func(c cloud.Change) bool {
				return strings.HasSuffix(c.Author.Name, session) && c.Author.Ours == ours
			})
		})
	}
}
