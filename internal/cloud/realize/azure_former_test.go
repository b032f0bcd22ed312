package realize

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/realize/status"
	simazure "github.com/nephele-io/nephele/internal/sim/azure"
	"github.com/nephele-io/nephele/internal/sim/azure/build"
	"github.com/nephele-io/nephele/internal/sim/azure/document"
)

// TestAzureFormerGroupDeleted: the owner deletes the own group of a guarded VM, which looks unused.
// The VM says so and goes on to be open within its network; when the policies go it is given back,
// and nothing of ours is left.
func TestAzureFormerGroupDeleted(t *testing.T) {
	t.Parallel()
	l := newAzureLab(t, azureConfig{more: func(b *build.Builder) {
		group := b.SecurityGroup("shop", "own", build.Rule("ssh", "Inbound", 100, "Allow", "Tcp", "Internet", "", "22"))
		b.Machine("shop", "web-7", azureVNet+"/subnets/web", "10.1.1.77", group)
	}})
	deleted := func() *metav1.Condition {
		r, _ := l.realizer.Report(labAccount)
		i := slices.IndexFunc(r.Result.VMs, func(v plan.VMStatus) bool { return v.VM.ID == l.vms["web-7"].id })
		return meta.FindStatusCondition(r.Outcome(r.Result.VMs[i], "VM", nil, status.Outcome{}).Conditions, cloudv1.ConditionFormerGroupsDeleted)
	}
	l.publish()
	l.start()
	l.engine.PutPolicy(webIn())
	l.publish()
	l.settle()
	if cond := deleted(); cond != nil {
		t.Errorf("%+v", cond)
	}
	err := l.world.ChangeAzure("", "", "test", func(c *simazure.Cloud, now time.Time) ([]string, error) {
		p := c.Principals()[0]
		p.Assignments = nil
		s := c.State()
		for i := range s.Resources {
			if at, _ := document.ParseID(s.Resources[i].ID); at.Name() == "own" {
				_, err := c.Delete(simazure.Write{By: &p, Now: now}, at)
				return nil, err
			}
		}
		t.Error("there is no group")
		return nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	l.since = l.options.Clock.Now()
	l.accounts.observe(t.Context())
	l.settle()
	cond := deleted()
	if cond == nil || cond.Reason != "DeletedByOwner" || !strings.Contains(cond.Message, "/networksecuritygroups/own was deleted") || !strings.Contains(cond.Message, "Create a group with this id") {
		t.Errorf("%+v", cond)
	}
	l.engine.DeletePolicy(webIn().UID)
	l.publish()
	l.settle()
	for id, doc := range l.documents() {
		if strings.Contains(id, "nephele-") || strings.Contains(doc, "nephele.io_") {
			t.Errorf("left over: %s: %s", id, doc)
		}
	}
	if doc := l.documents()[l.vms["web-7"].nic]; strings.Contains(doc, `"networkSecurityGroup":`) {
		t.Error(doc)
	}
}
