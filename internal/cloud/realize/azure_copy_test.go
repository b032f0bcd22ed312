package realize

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
	"github.com/nephele-io/nephele/internal/cloud/realize/instance/register/registertest"
	"github.com/nephele-io/nephele/internal/cloud/tenure"
	"github.com/nephele-io/nephele/internal/policy/compute"
	"github.com/nephele-io/nephele/internal/sim/calls"
)

// copied is a copy of the control plane: the same cluster id, its own objects, and what the
// original's record and key are at that moment.
func (l *azureLab) copied(name string, of *twin) *twin {
	l.Helper()
	o := &lab{T: l.T, engine: compute.New(compute.Options{}), store: watchstore.New(watchstore.Options{}), sink: &reports{}, audit: l.audit,
		vms: maps.Clone(l.vms), probes: l.probes, options: l.options, newProvider: l.newProvider, marksPermitted: true}
	acct := l.accounts.account
	acct.Snapshots, acct.Entities = maps.Clone(acct.Snapshots), maps.Clone(acct.Entities)
	o.accounts = &labAccounts{subs: map[int]func(string){}, account: acct}
	for vm := range o.vms {
		o.putEntity(vm)
	}
	o.options.Follower.Source, o.options.Accounts, o.options.Sink = storeSource{o.store}, o.accounts, o.sink
	o.options.Clock, o.options.Follower.Clock = newHasty(-1000*time.Hour), newHasty(-1000*time.Hour)
	o.cluster = copyKey(l.T, of.cluster)
	c := &twin{lab: o, name: name, book: of.book.Copied(), diary: of.diary}
	c.provide()
	return c
}

// mark is the mark that the shop's network carries.
func (l *azureLab) mark() string {
	l.Helper()
	for _, doc := range l.tagsIn(azureVNet) {
		if text, ok := strings.CutPrefix(doc, "nephele.io_instance="); ok {
			return text
		}
	}
	return ""
}

// TestAzureCopyOfTheCluster: a copy of the control plane is started beside the original, with other
// objects. It writes nothing, says so, and the original goes on. When it is told to take over, the
// original stops.
func TestAzureCopyOfTheCluster(t *testing.T) {
	t.Parallel()
	l := newAzureLab(t, azureConfig{clock: newHasty(0)})
	l.options.ClaimPause = labPause
	first := &twin{lab: l.lab, name: "first", book: &registertest.Notebook{}, diary: &diary{}}
	first.provide()
	enforces := func(w *twin) {
		t.Helper()
		w.until(w.body.who+" enforces what it wants", func() bool {
			w.accounts.observe(t.Context())
			return w.unsettled() == "" && compare(l.actual(), l.wants(w.lab)) == ""
		})
	}
	first.engine.PutPolicy(dbNoShell())
	first.publish()
	first.start()
	enforces(first)
	l.seen(func(c calls.Call) {
		if strings.HasSuffix(c.Action, "/read") {
			return
		}
		for _, p := range shut() {
			if l.half(p, false).Allowed {
				t.Errorf("%s opened %s", c.Action, p)
			}
		}
	})
	began := time.Now()
	b := l.copied("copy", first)
	b.publish() // without the policies of the original: to enforce that is to give everything back
	b.start()
	b.stopsFor("first1")
	first.engine.PutPolicy(webIn())
	first.publish()
	enforces(first)
	b.accounts.change(func(a *Account) { a.Releasing = true })
	b.until("it says why the account is not given back", func() bool {
		b.accounts.observe(t.Context())
		r, _ := b.realizer.Report(labAccount)
		return r.Err != nil && strings.Contains(r.Err.Error(), "another instance of this controller with the same cluster id, first1, writes to this account")
	})
	if b.realizer.Released(labAccount) {
		t.Error("released")
	}
	if w := b.diary.writes("copy1", began); len(w) > 0 {
		t.Errorf("the copy has written: %+v", w)
	}
	if is := first.sole(); is.State != tenure.Sole || !strings.HasPrefix(l.mark(), "first1 ") {
		t.Errorf("the original: %+v, mark %q", is, l.mark())
	}
	b.accounts.change(func(a *Account) { a.Releasing = false })
	b.engine.PutPolicy(dbNoShell())
	b.publish()
	b.takeOver("first1")
	first.stopsFor("copy1")
	enforces(b)
	took := time.Now()
	first.engine.PutPolicy(webInEdited())
	first.publish()
	first.until("the original says why it enforces nothing more", func() bool {
		first.accounts.observe(t.Context())
		r, _ := first.realizer.Report(labAccount)
		return r.Err != nil && strings.Contains(r.Err.Error(), "copy1, writes to this account")
	})
	if w := first.diary.writes("first1", took); len(w) > 0 {
		t.Errorf("the original has written: %+v", w)
	}
	if d, text := first.diary.together(); d > labHeartbeat {
		t.Errorf("two have written together for %s: %s", d, text)
	}
}

// wants is wanted by the policies of another cluster.
func (l *azureLab) wants(of *lab) verdicts {
	mine := l.engine
	defer func() { l.engine = mine }()
	l.engine = of.engine
	return l.wanted()
}

// TestAzureForgedAfterRestart: a record of former groups that somebody wrote on an interface while
// no controller ran is not believed by the next one, whatever asks for the VM to be given back: it
// stays under control, others are given back, and it is said. When the account's owner has said
// what it had, it is given that.
func TestAzureForgedAfterRestart(t *testing.T) {
	t.Parallel()
	for name, forge := range map[string]func(l *azureLab){
		"another group": func(l *azureLab) {
			l.retag(l.vms["web-1"].nic, azureTagNames(map[string]string{cloud.TagFormer: "none@" + strings.Repeat("0", 8)}))
		},
		"the record of another one": func(l *azureLab) {
			other := map[string]any{}
			for _, text := range l.tagsIn(l.vms["web-2"].nic) {
				k, v, _ := strings.Cut(text, "=")
				if strings.HasPrefix(k, "nephele.io_") {
					other[k] = v
				}
			}
			l.retag(l.vms["web-1"].nic, other)
		},
		"removed": func(l *azureLab) {
			gone := map[string]any{}
			for _, text := range l.tagsIn(l.vms["web-1"].nic) {
				k, _, _ := strings.Cut(text, "=")
				if strings.HasPrefix(k, "nephele.io_former") || strings.HasPrefix(k, "nephele.io_signature") {
					gone[k] = nil
				}
			}
			l.retag(l.vms["web-1"].nic, gone)
		},
	} {
		for _, asks := range []plan.Mode{plan.Enforce, plan.Released} {
			t.Run(fmt.Sprintf("%s/%s", name, asks), func(t *testing.T) {
				t.Parallel()
				l := newAzureLab(t, azureConfig{})
				before := l.documents()
				l.engine.PutPolicy(webIn())
				l.publish()
				l.start()
				l.settle()
				l.halt()
				forge(l)
				l.start()
				l.until("it is said", func() bool { return len(l.records().Unproven) == 1 })
				if d := compare(l.actual(), l.wanted()); d != "" {
					t.Errorf("it is not enforced any more: %s", d)
				}
				if asks == plan.Enforce {
					l.engine.DeletePolicy(webIn().UID)
					l.publish()
				} else {
					l.setModes(asks, "web-1", "web-2", "web-9", "ops-1")
				}
				l.until("the others are given back", func() bool { return l.documents()[l.vms["web-2"].nic] == before[l.vms["web-2"].nic] })
				if doc := l.documents()[l.vms["web-1"].nic]; !strings.Contains(doc, "networkSecurityGroups/nephele-") && !strings.Contains(doc, "networksecuritygroups/nephele-") {
					t.Errorf("web-1 was given something: %s", doc)
				}
				confirmed, problem := plan.ParseConfirmed(strings.ToUpper(l.vms["web-1"].nic) + "=" + azureShop + "networkSecurityGroups/web")
				if problem != "" {
					t.Fatal(problem)
				}
				l.former = confirmed
				l.exchange()
				l.accounts.observe(t.Context())
				l.accounts.change(func(a *Account) { a.Confirmed = confirmed })
				l.until("all is given back", func() bool {
					after := l.documents()
					if len(after) != len(before) {
						return false
					}
					for id, doc := range before {
						if after[id] != doc {
							return false
						}
					}
					return true
				})
			})
		}
	}
}
