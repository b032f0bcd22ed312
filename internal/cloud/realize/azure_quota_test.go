package realize

import (
	"fmt"
	"strings"
	"testing"
	"time"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/policy"
	simazure "github.com/nephele-io/nephele/internal/sim/azure"
)

// limit sets the quotas of the subscription.
func (l *azureLab) limit(limits simazure.Limits) {
	l.Helper()
	l.cloudly(func(c *simazure.Cloud, _ time.Time) error { return c.SetLimits(azureSubscription, limits) })
}

// groupsOf counts the resources of a kind, and names what is half a pair of ours.
func (l *azureLab) groupsOf(kind string) (n int, halves []string) {
	l.Helper()
	const nsgs, asgs = "/networksecuritygroups/", "/applicationsecuritygroups/"
	all := l.documents()
	for id := range all {
		if strings.Contains(id, kind) {
			n++
		}
		for _, pair := range [][2]string{{nsgs, asgs}, {asgs, nsgs}} {
			if other := strings.Replace(id, pair[0], pair[1], 1); strings.Contains(id, pair[0]+"nephele-") && all[other] == "" {
				halves = append(halves, id)
			}
		}
	}
	return n, halves
}

// TestAzureNoMoreGroups: the subscription has as many groups of one kind as Azure lets it have, in
// the middle of making some. What has room is enforced and keeps its group, what has none says why,
// no half of a pair is taken for a whole one, and all of it goes on when there may be more.
func TestAzureNoMoreGroups(t *testing.T) {
	t.Parallel()
	quotas := map[string]func(n int) (simazure.Limits, cloudv1.AzureQuotas){
		"/networksecuritygroups/": func(n int) (simazure.Limits, cloudv1.AzureQuotas) {
			return simazure.Limits{NetworkSecurityGroups: n}, cloudv1.AzureQuotas{NetworkSecurityGroups: int32(n)}
		},
		"/applicationsecuritygroups/": func(n int) (simazure.Limits, cloudv1.AzureQuotas) {
			return simazure.Limits{ApplicationSecurityGroups: n}, cloudv1.AzureQuotas{ApplicationSecurityGroups: int32(n)}
		},
	}
	for kind, quota := range quotas {
		for _, known := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, known %t", strings.Trim(kind, "/"), known), func(t *testing.T) {
				t.Parallel()
				l := newAzureLab(t, azureConfig{})
				before := l.documents()
				n, _ := l.groupsOf(kind)
				cloudly, told := quota(n + 1) // the policy is for two classes of VMs
				if known {
					l.quotas = &told
					l.exchange()
				}
				l.limit(cloudly)
				l.publish()
				l.start()
				was := l.actual()
				l.engine.PutPolicy(webIn())
				delta := l.engine.Commit()
				l.expect(was, l.wanted())
				l.publishDelta(delta)
				if known {
					// One of its two classes has room, and the other says why it has none.
					l.until("the policy is enforced on one class, and the other says why it is not", func() bool {
						return l.realizedOn("web-1", "web-in") && l.realizedOn("web-2", "web-in") && l.shortOfGroups("web-9", "web-in")
					})
					l.expect(nil, nil)
					// What is in force keeps its group, and gives it back when its policy goes.
					l.engine.PutPolicy(dbNoShell())
					l.publish()
					l.until("another policy has no room", func() bool {
						return l.shortOfGroups("db-1", "db-no-shell") && l.realizedOn("web-1", "web-in")
					})
					l.engine.DeletePolicy(webIn().UID)
					l.publish()
					l.until("the other policy is enforced", func() bool { return l.realizedOn("db-1", "db-no-shell") })
					l.engine.DeletePolicy(dbNoShell().UID)
					l.engine.PutPolicy(webIn())
					l.publish()
				} else {
					l.until("the account says why", func() bool { return strings.Contains(l.failure(), "CountLimitReached") })
					l.until("there is one group more", func() bool { got, _ := l.groupsOf(kind); return got == n+1 })
				}
				l.limit(simazure.Limits{})
				l.quotas = nil
				l.exchange()
				l.settle()
				if diff := compare(l.actual(), l.wanted()); diff != "" {
					t.Errorf("with a higher quota:\n%s", diff)
				}
				if len(l.wrong) > 0 {
					t.Errorf("in between:\n%s", strings.Join(l.wrong, "\n"))
				}
				if _, halves := l.groupsOf(kind); len(halves) > 0 {
					t.Errorf("half a pair: %v", halves)
				}
				l.expect(nil, nil)
				l.engine.DeletePolicy(webIn().UID)
				l.publish()
				l.settle()
				l.unchanged(before)
			})
		}
	}
}

// realizedOn reports whether a VM enforces a policy.
func (l *azureLab) realizedOn(vm, policy string) bool {
	p, found := l.policyOn(vm, policy)
	return found && p.Realized
}

// shortOfGroups reports whether a VM says that there is no group left for a policy.
func (l *azureLab) shortOfGroups(vm, policy string) bool {
	p, found := l.policyOn(vm, policy)
	return found && !p.Realized && strings.Contains(p.Message, "groups")
}

// unchanged checks that everything is as it was.
func (l *azureLab) unchanged(before map[string]string) {
	l.Helper()
	after := l.documents()
	for id, doc := range before {
		if after[id] != doc {
			l.Errorf("%s:\n%s\nwas\n%s", id, after[id], doc)
		}
	}
	for id := range after {
		if before[id] == "" {
			l.Errorf("%s is left", id)
		}
	}
}

// TestAzureManyBlocks: a policy of more blocks than a network security group takes rules is in
// force, because one rule takes them all. One with more blocks than it takes prefixes is refused
// with that limit, and other policies go on beside it.
func TestAzureManyBlocks(t *testing.T) {
	t.Parallel()
	l := newAzureLab(t, azureConfig{})
	many := func(n int) policy.Policy {
		p := webIn()
		p.Generation = int64(n)
		p.Ingress[0].Peers = nil
		for i := range n {
			p.Ingress[0].Peers = append(p.Ingress[0].Peers, block(fmt.Sprintf("20.%d.%d.0/24", i/100, 2*(i%100)))...)
		}
		return p
	}
	allowed := func(from string) bool {
		at := probe{from: from, to: "web-2", port: 443}
		v := l.half(at, false)
		return v.Allowed
	}
	l.publish()
	l.start()
	l.engine.PutPolicy(many(1500))
	l.publish()
	l.settle()
	if !allowed("20.14.198.9") || allowed("20.14.199.9") {
		t.Error("the last of 1500 blocks is not let in, or what is beside it")
	}
	l.engine.PutPolicy(many(4001))
	l.engine.PutPolicy(dbNoShell())
	l.publish()
	told := ""
	l.until("it is refused", func() bool {
		p, found := l.policyOn("web-2", "web-in")
		told = p.Message
		return found && !p.Realized && told != ""
	})
	if !strings.Contains(told, "source address prefixes, and Azure takes at most 4000 in one") {
		t.Error(told)
	}
	l.until("the other one is in force", func() bool { p, found := l.policyOn("db-1", "db-no-shell"); return found && p.Realized })
	if !allowed("20.14.198.9") {
		t.Error("what was in force is not any more")
	}
}
