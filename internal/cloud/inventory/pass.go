package inventory

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/accountspec"
	"github.com/nephele-io/nephele/internal/cloud/selection"
)

// pass is one Reconcile of one account.
type pass struct {
	loop    *Inventory
	cpa     *v1alpha1.CloudProviderAccount
	account *account
	// selectors are those that the account lets select; refused are the others.
	selectors []v1alpha1.CloudEntitySelector
	refused   []selection.Refused
	// began is what cpa and selectors were when the reading of the regions began: an edit changes
	// them while it runs.
	began beginning
	// problem is why the account has no provider; nil if it has one.
	problem *problem
	// externalID is that of the account's role; empty if the controller does not choose it.
	externalID string
	// news says that something changed that subscribers want to know.
	news bool
	// quick says that nothing but named objects was read, and that no object of ours was touched
	// since the last pass: then the objects need not all be looked at.
	quick bool
	// ends is when the first release in an emergency ends by itself; zero if none does.
	ends time.Time
}

// beginning is what a provider was opened and regions are read for.
type beginning struct {
	cpa *v1alpha1.CloudProviderAccount
	// selection is of the selectors; see selection.
	selection string
}

// problem is a fault of the account's configuration.
type problem struct{ reason, message string }

func (p *pass) key() types.NamespacedName { return client.ObjectKeyFromObject(p.cpa) }

func (p *pass) deleting() bool { return !p.cpa.DeletionTimestamp.IsZero() }

// interval is the account's poll interval.
func (p *pass) interval() time.Duration {
	seconds := v1alpha1.DefaultPollIntervalInSeconds
	if s := p.cpa.Spec.PollIntervalInSeconds; s != nil {
		seconds = max(*s, v1alpha1.MinPollIntervalInSeconds)
	}
	return time.Duration(seconds) * time.Second
}

func (p *pass) run(ctx context.Context) (reconcile.Result, error) {
	changed, err := p.configure(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	var s *syncer
	var d selection.Desired
	publish := func() (written error) {
		s = &syncer{loop: p.loop, account: p.key()}
		d, written, err = p.publish(ctx, s)
		return written
	}
	due := p.account.due(p.loop.opts.Now(), changed)
	p.quick = p.account.onlyHints(due) && !p.deleting()
	if p.problem == nil {
		p.observe(ctx, due, publish)
	}
	if ctx.Err() != nil || !p.loop.mine(p.key()) {
		return reconcile.Result{}, ctx.Err() // what could not be read any more is no news about the account
	}
	p.news = p.account.dropReleased(p.interval()) || p.news
	written := publish()
	if err != nil {
		return reconcile.Result{}, err
	}
	if err := errors.Join(written, p.report(ctx, d, s, written)); err != nil {
		return reconcile.Result{}, err
	}
	if p.deleting() {
		return p.release(ctx)
	}
	wait := p.interval()
	if p.problem == nil {
		wait = p.account.wait(p.loop.opts.Now(), wait)
	}
	if s.again {
		wait = min(wait, staleWait)
	}
	if !p.ends.IsZero() {
		wait = min(wait, max(p.ends.Sub(p.loop.opts.Now()), time.Millisecond))
	}
	return reconcile.Result{RequeueAfter: wait}, nil
}

// configure makes the account's provider and regions of its configuration and reports whether that,
// or the selection, changed.
func (p *pass) configure(ctx context.Context) (changed bool, err error) {
	config, err := p.config(ctx)
	if err != nil {
		return false, err
	}
	if p.loop.opts.ExternalID != nil {
		p.externalID = p.loop.opts.ExternalID(config)
	}
	encoded, err := json.Marshal(config)
	if err != nil {
		return false, fmt.Errorf("encode the configuration of account %s: %w", p.key(), err)
	}
	inputs := fingerprint{config: sha256.Sum256(encoded), selection: p.began.selection}

	a := p.account
	a.mu.Lock()
	defer a.mu.Unlock()
	changed = a.inputs != inputs || a.deleting != p.deleting()
	p.news = a.inputs.config != inputs.config || a.deleting != p.deleting()
	p.news = p.settle(a) || p.news
	if a.inputs.config != inputs.config || (a.provider == nil && p.problem == nil) {
		a.provider, a.whole = nil, nil
		if p.problem == nil {
			a.whole, err = p.loop.opts.Clouds[config.Cloud](config)
			if err != nil {
				a.whole, p.problem = nil, p.unopened(err)
			}
		}
		p.loop.listen(a, config.Queues)
	}
	p.narrow(a)
	a.inputs, a.deleting, a.interval = inputs, p.deleting(), p.interval()
	a.underway = p.loop.opts.Underway != nil && p.loop.opts.Underway(cloud.AccountKey(p.cpa.Namespace, p.cpa.Name))
	if len(config.Regions) == 0 {
		return changed, nil // a configuration without regions is none; what is known stays
	}
	a.setRegions(config.Regions, p.cpa.Status.Regions, p.loop.opts.Releaser != nil, p.loop.opts.Now())
	if p.problem != nil {
		for _, r := range a.regions {
			r.err = errors.New(p.problem.message)
		}
	}
	return changed, nil
}

// identities identifies selectors and their generations.
func identities(all []v1alpha1.CloudEntitySelector) string {
	var out strings.Builder
	for i := range all {
		out.WriteString(identity(&all[i]))
	}
	return out.String()
}

// identity identifies a selector and its generation.
func identity(s *v1alpha1.CloudEntitySelector) string {
	return fmt.Sprintf("%s/%s %d\n", s.Namespace, s.UID, s.Generation)
}

// unopened is the problem with an account whose provider cannot be made.
func (p *pass) unopened(err error) *problem {
	reason := v1alpha1.ReasonSecretInvalid
	var notGranted *cloud.NotGrantedError
	if errors.As(err, &notGranted) {
		reason = v1alpha1.ReasonNotGranted
	}
	return p.secretProblem(*accountspec.SecretRefOf(p.cpa), reason, err.Error())
}

// config reads the configuration and the Secret. What is wrong with them becomes p.problem; an
// error is one of the API server.
func (p *pass) config(ctx context.Context) (accountspec.Config, error) {
	c, ref := accountspec.ConfigOf(p.cpa)
	if c.Cloud == "" {
		p.problem = &problem{v1alpha1.ReasonProviderUnsupported, "neither spec.awsConfig nor spec.azureConfig is set"}
		return c, nil
	}
	switch {
	case p.loop.opts.Clouds[c.Cloud] == nil:
		p.problem = &problem{v1alpha1.ReasonProviderUnsupported, fmt.Sprintf("accounts of %s are not supported", c.Cloud)}
		return c, nil
	case ref == nil:
		p.problem = &problem{v1alpha1.ReasonSecretNotFound, "secretRef is not set"}
		return c, nil
	}
	c.Secret, c.SecretKey = ref.Namespace+"/"+ref.Name, ref.Key
	value, found, err := p.loop.secretValue(ctx, *ref)
	var missing *missingGrant
	if err != nil && !errors.As(err, &missing) {
		return c, err
	}
	last := &p.account.secret
	switch {
	case found:
		*last = credentials{*ref, value}
	case p.deleting() && last.ref == *ref:
		// Deleting a namespace, or all of a manifest, deletes the Secret too, and perhaps first.
		// The VMs must not stay guarded for ever.
		value = last.value
	case missing != nil:
		p.problem = &problem{v1alpha1.ReasonNotGranted, missing.Error()}
	default:
		p.problem = p.secretProblem(*ref, v1alpha1.ReasonSecretNotFound, fmt.Sprintf("secret %s does not exist or has no key %q", c.Secret, c.SecretKey))
	}
	c.SecretValue = value
	return c, nil
}

// publish computes what there should be from what is known, lets the subscribers know and writes
// the objects. What has not changed since the last time is left alone: if nothing has, nothing is
// computed or compared. written is what went wrong with the writing; err that the objects could not
// be read, so that nothing was done.
func (p *pass) publish(ctx context.Context, s *syncer) (d selection.Desired, written, err error) {
	s.stale = p.stale()
	v := selection.View{Account: p.key(), Provider: p.cloud(), Snapshots: p.account.snapshots(), MergeTags: accountspec.UserTagsOf(p.cpa) == v1alpha1.UserTagsMerge}
	if !p.deleting() {
		v.Selectors = p.selectors
	}
	inputs, last := p.inputsOf(s.stale), p.account.basis
	if !last.lasts(p.loop.opts.Now()) {
		last = nil
	}
	v.Keep = p.keep(v)
	var changed map[string]bool
	partly := false
	if p.quick && last != nil {
		if changed, partly = last.changes(last.objects, inputs, v); partly {
			err = s.fetch(ctx, v, changed, last.objects)
		}
	}
	if !partly {
		if err = s.list(ctx); err == nil {
			changed, partly = last.changes(s.sum, inputs, v)
		}
	}
	if err == nil && partly && len(changed) > 0 && s.contested(v, last, changed) {
		partly = false
		err = s.list(ctx)
	}
	if err != nil {
		p.account.basis = nil
		if p.news { // the next pass will not know of it
			p.news = false
			p.loop.notify(p.key())
		}
		return selection.Desired{}, nil, err
	}
	v.VMs, v.Services, v.Interfaces, v.Modes = s.vms, s.natives, s.ports, p.modes(s)
	if partly {
		p.ends = last.ends
	} else {
		p.ends = v.FirstEnd()
	}
	switch {
	case partly && len(changed) == 0:
		last.snapshots = v.Snapshots
		p.tellRefs(last.tally)
		return selection.Desired{Tally: last.tally}, nil, nil
	case partly:
		var gone selection.Desired
		d, gone = selection.Part(v, last.tally, last.snapshots, changed)
		s.only(d, gone)
	default:
		d = selection.Compute(v)
	}
	p.tellRefs(d.Tally)
	p.account.basis = nil
	written = s.sync(ctx, d, v.Keep)
	if written == nil && !s.again && !s.left && len(s.taken) == 0 {
		p.account.basis = &basis{objects: s.sum, inputs: inputs, snapshots: v.Snapshots, tally: d.Tally, ends: p.ends}
	}
	return d, written, nil
}

// tellRefs keeps the entities' VMs and services, and lets subscribers know if they or anything else
// have changed. The maps are not changed any more.
func (p *pass) tellRefs(t selection.Tally) {
	p.account.mu.Lock()
	p.news = p.news || !maps.Equal(p.account.refs, t.VMRefs) || !maps.Equal(p.account.services, t.ServiceRefs)
	p.account.refs, p.account.services = t.VMRefs, t.ServiceRefs
	for _, r := range p.account.regions {
		r.shown = r.shown || r.snapshot != nil
	}
	p.account.mu.Unlock()
	if p.news {
		p.news = false
		p.loop.notify(p.key())
	}
}

func (p *pass) cloud() v1alpha1.CloudProvider {
	if spec := p.began.cpa.Spec; spec.AzureConfig != nil && spec.AWSConfig == nil {
		return v1alpha1.CloudProviderAzure
	}
	return v1alpha1.CloudProviderAWS
}

// keep decides which objects that no snapshot shows are kept: the objects of regions that were not
// read since the start, in namespaces that still have a selector of the account. namespace is ""
// for objects that no selector decides about.
func (p *pass) keep(v selection.View) func(region, namespace string) bool {
	p.account.mu.Lock()
	defer p.account.mu.Unlock()
	if len(p.account.regions) == 0 {
		return func(string, string) bool { return true }
	}
	unread := map[string]bool{}
	for name, r := range p.account.regions {
		if r.snapshot == nil && r.left.IsZero() {
			unread[name] = true
			unread[""] = true // an object that was created but never got a status may be of any region
		}
	}
	selecting := map[string]bool{"": true}
	for _, s := range v.Selectors {
		selecting[s.Namespace] = true
	}
	return func(region, namespace string) bool { return unread[region] && selecting[namespace] }
}

// stale returns, for the regions whose snapshot is too old to be called current, what to say about
// them.
func (p *pass) stale() map[string]string {
	p.account.mu.Lock()
	defer p.account.mu.Unlock()
	out := map[string]string{}
	for name, r := range p.account.regions {
		switch {
		case r.err == nil:
		case r.snapshot == nil:
			out[name] = fmt.Sprintf("region %s could not be read since the controller started", name)
		case p.loop.opts.Now().Sub(r.known) > 2*p.interval():
			out[name] = fmt.Sprintf("region %s could not be read since %s", name, r.known.UTC().Format(time.RFC3339))
		}
	}
	return out
}

// everRead reports whether any region of the account was ever read. In an account that never was,
// nothing can be held, and it need not wait for credentials that perhaps never come.
func everRead(cpa *v1alpha1.CloudProviderAccount) bool {
	return slices.ContainsFunc(cpa.Status.Regions, func(r v1alpha1.RegionStatus) bool { return r.LastSyncTime != nil })
}

// release lets a deleted account go once nothing of ours is left in it.
func (p *pass) release(ctx context.Context) (reconcile.Result, error) {
	key := cloud.AccountKey(p.cpa.Namespace, p.cpa.Name)
	if p.loop.opts.Releaser != nil && everRead(p.cpa) && !p.loop.opts.Releaser.Released(key) {
		wait := min(releasePoll, p.account.wait(p.loop.opts.Now(), releasePoll))
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	if err := p.loop.clear(ctx, p.key()); err != nil {
		return reconcile.Result{}, err
	}
	if controllerutil.ContainsFinalizer(p.cpa, Finalizer) {
		base := p.cpa.DeepCopy()
		controllerutil.RemoveFinalizer(p.cpa, Finalizer)
		err := p.loop.opts.Client.Patch(ctx, p.cpa, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}))
		if client.IgnoreNotFound(err) != nil {
			return reconcile.Result{}, fmt.Errorf("release account %s: %w", key, err)
		}
	}
	return reconcile.Result{}, nil
}

// modes collects what decides the modes of what the account has.
func (p *pass) modes(s *syncer) selection.Modes {
	out := selection.Modes{Fallback: p.cpa.Spec.Mode, Release: p.cpa.Spec.ReleaseNamespaces, Now: p.loop.opts.Now()}
	for _, o := range s.vms {
		out.Look(o)
	}
	for _, o := range s.natives {
		out.Look(o)
	}
	for _, o := range s.ports {
		out.Look(o)
	}
	return out
}

// accountInputs is what the objects depend on and neither the configuration, nor a generation, nor
// an object of ours tells.
func (p *pass) accountInputs() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %q %s", p.cpa.Spec.Mode, p.cpa.Spec.ReleaseNamespaces, accountspec.UserTagsOf(p.cpa))
	for i := range p.selectors {
		if reason, ok := p.selectors[i].Annotations[v1alpha1.AnnotationBreakGlass]; ok {
			fmt.Fprintf(&b, " %s %q %q", p.selectors[i].UID, reason, p.selectors[i].Annotations[v1alpha1.AnnotationBreakGlassUntil])
		}
	}
	return b.String()
}
