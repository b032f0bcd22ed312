// Package policyserver shows in accounts and policies whether an Antrea Controller that computes
// policies in place of ours can be reached.
//
// It owns the condition PoliciesReceived of accounts and the condition of the same purpose of
// policies. A Watch is a manager.Runnable; Mirror may be called from anywhere.
package policyserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	antreav1beta1 "github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/enforcer"
	"github.com/nephele-io/nephele/internal/platform/recovered"
)

const (
	// awayAfter is how long a foreign policy server may be silent before the status says so:
	// watches end in order every now and then.
	awayAfter = 15 * time.Second
	// interval is how often it is looked, repeat how often policies are looked through while the
	// server is away.
	interval, repeat = 3 * time.Second, 30 * time.Second
)

// Watch writes into accounts and policies that the Antrea Controller that computes in our place is
// away, and that it is back. Enforcement does not wait for it: what was enforced last stays so.
type Watch struct {
	// Client has the accounts. Policies returns a client for the cluster that has the policies.
	Client   client.Client
	Policies func() (client.Client, error)
	Events   events.EventRecorder
	Clock    clock.Clock
	Log      logr.Logger

	mu      sync.Mutex
	mirrors map[string]*stream // by account
}

// stream is what an account has received of the server.
type stream struct {
	mirror *enforcer.Mirror
	// since is when it was first seen to be out of sync; zero while it is in sync.
	since time.Time
	err   error
	// reported is what the condition says; empty while that is not known.
	reported metav1.ConditionStatus
}

// Mirror takes in that a mirror of the server has begun or ended to run. It is an
// enforcer.Follower.Told.
func (f *Watch) Mirror(m *enforcer.Mirror, running bool) {
	key, ok := strings.CutPrefix(m.Key(), cloud.EnforcerPrefix)
	if !ok {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mirrors == nil {
		f.mirrors = map[string]*stream{}
	}
	if !running {
		if h := f.mirrors[key]; h != nil && h.mirror == m {
			delete(f.mirrors, key)
		}
		return
	}
	f.mirrors[key] = &stream{mirror: m}
}

// Start looks until ctx ends.
func (f *Watch) Start(ctx context.Context) error {
	marked := true // a former process may have left marks on policies
	var last time.Time
	wasAway, reported := false, ""
	for {
		if fault := recovered.Do(func() { f.look(ctx) }); fault != nil {
			f.Log.Error(fault, "Looking at the policy server panicked", "stack", recovered.StackOf(fault))
		}
		away := f.away()
		now := f.Clock.Now()
		if changed := wasAway != (len(away) > 0); (len(away) > 0 || marked) && (changed || now.Sub(last) >= repeat) {
			last, wasAway, marked = now, len(away) > 0, true
			err := f.mark(ctx, away)
			text := ""
			switch {
			case err == nil:
				marked = wasAway
			case ctx.Err() == nil:
				text = err.Error()
			}
			if text != "" && text != reported {
				f.Log.Info("Policies cannot be told whether the policy server is away, trying again", "error", text)
			}
			reported = text
		}
		select {
		case <-ctx.Done():
			return nil
		case <-f.Clock.After(interval):
		}
	}
}

// look compares what every account has received with what it says.
func (f *Watch) look(ctx context.Context) {
	type change struct {
		account string
		cond    metav1.Condition
	}
	var all []change
	now := f.Clock.Now()
	f.mu.Lock()
	for account, h := range f.mirrors {
		inSync := true
		for _, s := range h.mirror.Streams() {
			inSync = inSync && s.InSync
			if s.Err != nil {
				h.err = s.Err
			}
		}
		switch {
		case inSync:
			h.since, h.err = time.Time{}, nil
		case h.since.IsZero():
			h.since = now
		}
		cond := metav1.Condition{
			Type:    cloudv1.ConditionPoliciesReceived,
			Status:  metav1.ConditionTrue,
			Reason:  cloudv1.ReasonOK,
			Message: "what the Antrea Controller computes is received",
		}
		if h.isAway(now) {
			cond.Status, cond.Reason, cond.Message = metav1.ConditionFalse, cloudv1.ReasonPolicyServerAway, h.text()
		} else if !inSync {
			continue // not known yet
		}
		if h.reported != cond.Status {
			all = append(all, change{account, cond})
		}
	}
	f.mu.Unlock()
	for _, n := range all {
		if err := f.report(ctx, n.account, n.cond); err != nil {
			if ctx.Err() == nil {
				f.Log.Info("An account cannot be told whether the policy server is away", "account", n.account, "error", err.Error())
			}
			continue
		}
		f.mu.Lock()
		if h := f.mirrors[n.account]; h != nil {
			h.reported = n.cond.Status
		}
		f.mu.Unlock()
	}
}

func (h *stream) isAway(now time.Time) bool {
	return !h.since.IsZero() && now.Sub(h.since) >= awayAfter
}

func (h *stream) text() string {
	text := "nothing has been received of the Antrea Controller since " + h.since.UTC().Format(time.RFC3339) +
		": what was enforced last stays in force, and changes of policies wait for it"
	if h.err != nil {
		text += ": " + cloud.Words(h.err.Error())
	}
	return text
}

// report writes the condition of an account, and an event when it changes.
func (f *Watch) report(ctx context.Context, key string, cond metav1.Condition) error {
	namespace, name, _ := strings.Cut(key, "/")
	var account cloudv1.CloudProviderAccount
	var before *metav1.Condition
	changed := false
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		account = cloudv1.CloudProviderAccount{}
		if err := f.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &account); err != nil {
			return err
		}
		before = nil
		if c := meta.FindStatusCondition(account.Status.Conditions, cond.Type); c != nil {
			before = c.DeepCopy()
		}
		if changed = meta.SetStatusCondition(&account.Status.Conditions, cond); !changed {
			return nil
		}
		return f.Client.Status().Update(ctx, &account)
	})
	if err != nil || !changed {
		return client.IgnoreNotFound(err)
	}
	switch {
	case cond.Status == metav1.ConditionFalse:
		f.Events.Eventf(&account, nil, corev1.EventTypeWarning, cloudv1.ReasonPolicyServerAway, "Receive", "%s", cond.Message)
	case before != nil && before.Status == metav1.ConditionFalse:
		f.Events.Eventf(&account, nil, corev1.EventTypeNormal, "PolicyServerBack", "Receive", "%s", cond.Message)
	}
	return nil
}

// absence is what the status of the policies of some accounts says about the server.
type absence struct {
	account, text string
	// computed are the policies of these accounts, as they were last received, by namespace and
	// name.
	computed map[client.ObjectKey]bool
}

// away returns the accounts to which the server is away, nil if there are none.
func (f *Watch) away() []absence {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []absence
	for account, h := range f.mirrors {
		if !h.isAway(f.Clock.Now()) {
			continue
		}
		a := absence{account: account, text: h.text(), computed: map[client.ObjectKey]bool{}}
		for _, p := range h.mirror.Known().Policies {
			if p.SourceRef != nil {
				a.computed[client.ObjectKey{Namespace: p.SourceRef.Namespace, Name: p.SourceRef.Name}] = true
			}
		}
		out = append(out, a)
	}
	slices.SortFunc(out, func(a, b absence) int { return strings.Compare(a.account, b.account) })
	return out
}

// mark writes into the status of policies that the server is away, and takes that back from those
// of which it is not so (any more).
func (f *Watch) mark(ctx context.Context, away []absence) error {
	c, err := f.Policies()
	if err != nil {
		return err
	}
	var own antreav1beta1.NetworkPolicyList
	var cluster antreav1beta1.ClusterNetworkPolicyList
	if err := errors.Join(c.List(ctx, &own), c.List(ctx, &cluster)); err != nil {
		return err
	}
	var errs []error
	for i := range own.Items {
		p := &own.Items[i]
		errs = append(errs, f.markPolicy(ctx, c, p, &p.Status, away))
	}
	for i := range cluster.Items {
		p := &cluster.Items[i]
		errs = append(errs, f.markPolicy(ctx, c, p, &p.Status, away))
	}
	return errors.Join(errs...)
}

// markPolicy is mark of one policy: one that an account enforces, or that no controller has
// computed as it is now.
func (f *Watch) markPolicy(ctx context.Context, c client.Client, p client.Object, s *antreav1beta1.NetworkPolicyStatus, away []absence) error {
	text := ""
	for _, a := range away {
		if a.computed[client.ObjectKeyFromObject(p)] || s.Phase == "" || s.ObservedGeneration < p.GetGeneration() {
			text = fmt.Sprintf("account %s: %s", a.account, a.text)
			break
		}
	}
	at := slices.IndexFunc(s.Conditions, func(c antreav1beta1.NetworkPolicyCondition) bool {
		return c.Type == antreav1beta1.NetworkPolicyConditionReceived
	})
	switch {
	case text == "" && at < 0, text != "" && at >= 0 && s.Conditions[at].Message == text:
		return nil
	case text == "":
		s.Conditions = slices.Delete(s.Conditions, at, at+1)
		if strings.HasPrefix(s.Message, shortAway) {
			s.Message = ""
		}
	default:
		if at >= 0 {
			s.Conditions = slices.Delete(s.Conditions, at, at+1)
		}
		s.Conditions = append(s.Conditions, antreav1beta1.NetworkPolicyCondition{
			Type: antreav1beta1.NetworkPolicyConditionReceived, Status: metav1.ConditionFalse, Reason: cloudv1.ReasonPolicyServerAway, Message: text,
			LastTransitionTime: metav1.NewTime(f.Clock.Now()),
		})
		if s.Phase == "" {
			s.Phase = antreav1beta1.NetworkPolicyPending
		}
		s.Message = shortAway + ": what was enforced last stays in force"
	}
	err := c.Status().Update(ctx, p)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err // a conflict, too: it is looked at again
}

// shortAway begins the short message of policies while the server is away.
const shortAway = "the Antrea Controller is away"

// Forget removes what a Watch wrote into accounts when policies were computed elsewhere.
func Forget(ctx context.Context, c client.Client, log logr.Logger) error {
	var list cloudv1.CloudProviderAccountList
	if err := c.List(ctx, &list); err != nil {
		return client.IgnoreNotFound(err)
	}
	for i := range list.Items {
		a := &list.Items[i]
		if !meta.RemoveStatusCondition(&a.Status.Conditions, cloudv1.ConditionPoliciesReceived) {
			continue
		}
		if err := c.Status().Update(ctx, a); err != nil {
			log.Info("A condition of an account is left over from an Antrea Controller", "account", a.Namespace+"/"+a.Name, "error", err.Error())
		}
	}
	return nil
}
