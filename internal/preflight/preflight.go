// Package preflight finds out whether Nephele can work on a cluster and its cloud accounts, and
// what is missing.
//
// It owns the list of what is looked at and the judgement on each. It promises that it changes
// nothing: objects are read or written as dry runs, and what clouds permit is tried with calls that
// do nothing. It never shows a credential. What may not be looked at is a line of its own, not a
// success.
//
// Concurrency: Run looks at one thing after the other; several may run beside one another.
package preflight

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
)

// Verdict is the judgement on one thing.
type Verdict string

// The verdicts. Skipped is what could not be looked at.
const (
	OK      Verdict = "OK"
	Warn    Verdict = "WARN"
	Fail    Verdict = "FAIL"
	Skipped Verdict = "SKIP"
)

// Line is one thing that was looked at.
type Line struct {
	Verdict Verdict `json:"verdict"`
	// About names it; Message is what was found, Do what to do about it.
	About   string `json:"about"`
	Message string `json:"message"`
	Do      string `json:"do,omitempty"`
}

// Account is a cloud account that can be tried.
type Account interface {
	cloud.Provider
	cloud.Prober
}

// The bounds of what is still fine.
const (
	// oldestVersion is the oldest minor version of Kubernetes whose admission policies can do what
	// ours need.
	oldestVersion = "1.30"
	// soon is how long before its end a certificate is worth a warning.
	soon = 14 * 24 * time.Hour
	// skewed and off are how far clocks may be apart: signatures of AWS are good for five minutes.
	skewed, off = 5 * time.Second, 2 * time.Minute
	// full is the share of a quota from which a warning is due, in percent.
	full = 90
)

// Options are what Run looks with.
type Options struct {
	Client client.Client
	// Version asks the API server for its version, and for its time by the header of the answer.
	Version func(ctx context.Context) (*version.Info, http.Header, error)
	// ClientCertificate is that of the person in PEM; empty if he has none.
	ClientCertificate []byte
	// Definitions are the CustomResourceDefinitions of this version, one per file; Policies the
	// names of its admission policies, and Deletion of those that protect from deletion.
	Definitions        fs.FS
	Policies, Deletion []string
	// Rights are the rules that the identity is held against, with the name of the role that has
	// them.
	Rights []Right
	Role   string
	// Place says where the Secret of an account is, nil if it needs none, and which regions it has.
	Place func(a *cloudv1.CloudProviderAccount) (secret *cloudv1.SecretReference, regions []string)
	// Open makes the account of an object and its Secret.
	Open func(a *cloudv1.CloudProviderAccount, credentials []byte) (Account, error)
	// Now is the clock.
	Now func() time.Time
}

// Right is one thing that an identity may have to do.
type Right struct{ Group, Resource, Verb string }

// Run looks at everything. The lines are in a fixed order. If the API server cannot be reached,
// there is one line.
func Run(ctx context.Context, o Options) []Line {
	r := &run{Options: o, ctx: ctx}
	if !r.server() {
		return r.lines
	}
	for _, look := range []func(){r.certificate, r.definitions, r.policies, r.tiers, r.rights, r.webhooks, r.accounts} {
		look()
	}
	return r.lines
}

type run struct {
	Options
	ctx   context.Context
	lines []Line
}

func (r *run) note(v Verdict, about, do, format string, args ...any) {
	r.lines = append(r.lines, Line{Verdict: v, About: about, Message: fmt.Sprintf(format, args...), Do: do})
}

// server looks at the API server, and at its clock.
func (r *run) server() bool {
	const about = "API server"
	before := r.Now()
	info, header, err := r.Version(r.ctx)
	if err != nil {
		r.note(Fail, about, "look at --kubeconfig and --context, and whether it runs", "cannot be reached: %v", err)
		return false
	}
	after := r.Now()
	v, err := utilversion.ParseGeneric(info.GitVersion)
	switch {
	case err != nil:
		r.note(Warn, about, "", "reached; its version %q cannot be read", info.GitVersion)
	case v.LessThan(utilversion.MustParseGeneric(oldestVersion)):
		r.note(Fail, about, "use Kubernetes "+oldestVersion+" or newer", "version %s has no admission policies, by which the rights of authors are checked", info.GitVersion)
	default:
		r.note(OK, about, "", "version %s, answers in %s", info.GitVersion, after.Sub(before).Round(time.Millisecond))
	}
	theirs, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		r.note(Skipped, "clock and API server", "", "it does not say what time it has")
		return true
	}
	r.clock("clock and API server", theirs, before, after)
	return true
}

// clock compares a time, in whole seconds, with the span of ours in which it was given.
func (r *run) clock(about string, theirs, before, after time.Time) {
	var apart time.Duration
	switch {
	case theirs.Before(before.Truncate(time.Second)):
		apart = before.Truncate(time.Second).Sub(theirs)
	case theirs.After(after):
		apart = theirs.Sub(after)
	}
	v, do := OK, ""
	if apart > skewed {
		v, do = Warn, "synchronise the clocks (NTP)"
	}
	if apart > off {
		v = Fail
	}
	r.note(v, about, do, "%s apart", apart.Round(time.Second))
}

func (r *run) certificate() {
	if len(r.ClientCertificate) > 0 {
		r.validity("certificate in the kubeconfig", r.ClientCertificate, "get a new kubeconfig; nephele up writes one at every start")
	}
}

// validity judges the certificates in PEM by the one that ends first.
func (r *run) validity(about string, chain []byte, do string) {
	var ends time.Time
	for rest := chain; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			r.note(Fail, about, do, "cannot be read: %v", err)
			return
		}
		if ends.IsZero() || c.NotAfter.Before(ends) {
			ends = c.NotAfter
		}
	}
	left, day := ends.Sub(r.Now()), ends.UTC().Format("2006-01-02 15:04 MST")
	switch {
	case ends.IsZero():
		r.note(Fail, about, do, "is none")
	case left <= 0:
		r.note(Fail, about, do, "has ended on %s", day)
	case left < soon:
		r.note(Warn, about, do, "ends on %s", day)
	default:
		r.note(OK, about, "", "good until %s", day)
	}
}

// definitions compares the installed definitions with the ones of this version.
func (r *run) definitions() {
	const do = "kubectl apply --server-side -f api/generated/crd"
	names, err := fs.Glob(r.Definitions, "*.yaml")
	if err != nil {
		r.note(Fail, "definitions", "", "%v", err)
		return
	}
	good, bad := 0, len(r.lines)
	for _, name := range names {
		text, err := fs.ReadFile(r.Definitions, name)
		var want, have apiextensionsv1.CustomResourceDefinition
		if err == nil {
			err = utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), len(text)).Decode(&want)
		}
		if err == nil {
			err = r.Client.Get(r.ctx, client.ObjectKey{Name: want.Name}, &have)
		}
		switch {
		case apierrors.IsForbidden(err):
			r.note(Skipped, "definitions", "bind ClusterRole nephele-auditor", "may not be read")
			return
		case apierrors.IsNotFound(err):
			r.note(Fail, "definition "+want.Name, do, "is not installed")
			continue
		case err != nil:
			r.note(Fail, "definition "+name, "", "cannot be read: %v", err)
			continue
		}
		if absent := absent(&want, &have); len(absent) > 0 {
			r.note(Fail, "definition "+want.Name, do, "is of another version: it lacks %s", strings.Join(absent[:min(3, len(absent))], ", "))
			continue
		}
		good++
	}
	if len(r.lines) == bad {
		r.note(OK, "definitions", "", "all %d are installed, and are of this version or newer", good)
	}
}

// absent names the fields that a definition has and the installed one lacks.
func absent(want, have *apiextensionsv1.CustomResourceDefinition) []string {
	fields := func(d *apiextensionsv1.CustomResourceDefinition) map[string]bool {
		out := map[string]bool{}
		for _, v := range d.Spec.Versions {
			if v.Schema != nil && v.Schema.OpenAPIV3Schema != nil {
				collect(out, v.Name, v.Schema.OpenAPIV3Schema)
			}
		}
		return out
	}
	has := fields(have)
	var out []string
	for f := range fields(want) {
		if !has[f] {
			out = append(out, f)
		}
	}
	slices.Sort(out)
	return out
}

func collect(into map[string]bool, path string, s *apiextensionsv1.JSONSchemaProps) {
	into[path] = true
	for name := range s.Properties {
		p := s.Properties[name]
		collect(into, path+"."+name, &p)
	}
	if s.Items != nil && s.Items.Schema != nil {
		collect(into, path+"[]", s.Items.Schema)
	}
}

// policies looks for the admission policies and their bindings.
func (r *run) policies() {
	const do = "kubectl apply --server-side -k config/grants"
	missing := func(names []string) (out []string, err error) {
		for _, name := range names {
			var p admissionv1.ValidatingAdmissionPolicy
			var b admissionv1.ValidatingAdmissionPolicyBinding
			for _, o := range []client.Object{&p, &b} {
				err := r.Client.Get(r.ctx, client.ObjectKey{Name: name}, o)
				if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
					out = append(out, name)
					break
				} else if err != nil {
					return nil, err
				}
			}
		}
		return out, nil
	}
	for _, x := range []struct {
		about, effect string
		names         []string
		verdict       Verdict
	}{
		{"rights of authors", "nothing checks whether the author of an account may read its Secret, and the like", r.Policies, Fail},
		{"deletion protection", "accounts, selectors and their namespaces can be deleted while VMs are guarded", r.Deletion, Warn},
	} {
		switch absent, err := missing(x.names); {
		case apierrors.IsForbidden(err):
			r.note(Skipped, x.about, "bind ClusterRole nephele-auditor", "admission policies may not be read")
		case err != nil:
			r.note(Fail, x.about, "", "%v", err)
		case len(absent) > 0:
			r.note(x.verdict, x.about, do, "%s: these policies or their bindings are missing: %s", x.effect, strings.Join(absent, ", "))
		default:
			r.note(OK, x.about, "", "all %d admission policies are installed", len(x.names))
		}
	}
}

// tiers looks whether any author of policies may put them before the policies of all others, as in
// installations that are older than the labels of these tiers.
func (r *run) tiers() {
	const about = "tiers before the teams' tiers"
	var free []string
	for _, name := range v1beta1.TiersWithGrant() {
		var t v1beta1.Tier
		switch err := r.Client.Get(r.ctx, client.ObjectKey{Name: name}, &t); {
		case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
			// The controller makes it, with the label.
		case apierrors.IsForbidden(err):
			r.note(Skipped, about, "bind ClusterRole nephele-auditor", "tiers may not be read")
			return
		case err != nil:
			r.note(Fail, about, "", "%v", err)
			return
		case t.Labels[cloudv1.LabelTierUse] != cloudv1.TierUseRequired:
			free = append(free, name)
		}
	}
	if len(free) > 0 {
		r.note(Warn, about, fmt.Sprintf("kubectl label tier %s %s=%s, after ClusterRole nephele-tier-user is bound to the authors there",
			strings.Join(free, " "), cloudv1.LabelTierUse, cloudv1.TierUseRequired), "any author of policies may write into %s", strings.Join(free, ", "))
		return
	}
	r.note(OK, about, "", "policies in %s need a grant", strings.Join(v1beta1.TiersWithGrant(), ", "))
}

// rights asks the API server what the caller may do.
func (r *run) rights() {
	about := "rights of " + r.Role
	var absent []string
	for _, right := range r.Rights {
		resource, sub, _ := strings.Cut(right.Resource, "/")
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: right.Group, Resource: resource, Subresource: sub, Verb: right.Verb}}}
		if err := r.Client.Create(r.ctx, review); err != nil {
			r.note(Skipped, about, "", "the API server does not say: %v", err)
			return
		}
		if !review.Status.Allowed {
			absent = append(absent, strings.TrimSuffix(right.Verb+" "+right.Resource+"."+right.Group, "."))
		}
	}
	if len(absent) > 0 {
		r.note(Fail, about, "bind ClusterRole "+r.Role+" everywhere", "missing: %s", strings.Join(absent, ", "))
		return
	}
	r.note(OK, about, "", "all %d that are needed are there", len(r.Rights))
}

// webhooks looks whether kube-apiserver asks ours, and whether they answer.
func (r *run) webhooks() {
	const about = "admission webhooks"
	var mutating admissionv1.MutatingWebhookConfiguration
	var validating admissionv1.ValidatingWebhookConfiguration
	switch err := firstError(r.Client.Get(r.ctx, client.ObjectKey{Name: "crdmutator.antrea.io"}, &mutating), r.Client.Get(r.ctx, client.ObjectKey{Name: "crdvalidator.antrea.io"}, &validating)); {
	case apierrors.IsForbidden(err):
		r.note(Skipped, about, "bind ClusterRole nephele-auditor", "may not be read")
		return
	case apierrors.IsNotFound(err):
		r.note(Warn, about, "run the controller with --api", "are not registered: what is wrong with a policy is told in its status only, and nothing is filled in")
		return
	case err != nil:
		r.note(Fail, about, "", "%v", err)
		return
	}
	var bundles [][]byte
	for i := range mutating.Webhooks {
		bundles = append(bundles, mutating.Webhooks[i].ClientConfig.CABundle)
	}
	for i := range validating.Webhooks {
		bundles = append(bundles, validating.Webhooks[i].ClientConfig.CABundle)
	}
	if len(bundles) == 0 {
		r.note(Fail, about, "start the controller with --api", "are registered without any webhook")
		return
	}
	for i, b := range bundles {
		if i == 0 || !bytes.Equal(b, bundles[0]) {
			r.validity("certificate authority of the webhooks", b, "restart the controller")
		}
	}
	probe := &v1beta1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, GenerateName: "nephele-check-"}, Spec: v1beta1.NetworkPolicySpec{
		Priority: 1, AppliedTo: []v1beta1.AppliedTo{{PodSelector: &metav1.LabelSelector{}}}}}
	switch err := r.Client.Create(r.ctx, probe, client.DryRunAll); {
	case err == nil:
		r.note(OK, about, "", "%d are registered, and the webhooks of policies answer", len(mutating.Webhooks)+len(validating.Webhooks))
	case strings.Contains(err.Error(), "failed calling webhook"):
		r.note(Fail, about, "look whether the controller runs, and whether the API server reaches it", "do not answer, so no policy can be written: %v", err)
	case apierrors.IsForbidden(err):
		r.note(Skipped, about+" answer", "", "you may not write policies in namespace %s, so they were not asked", metav1.NamespaceDefault)
	default:
		r.note(Warn, about, "", "a policy on trial is refused: %v", err)
	}
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// accounts looks at each account.
func (r *run) accounts() {
	var list cloudv1.CloudProviderAccountList
	if err := r.Client.List(r.ctx, &list); err != nil {
		v := Fail
		if apierrors.IsForbidden(err) {
			v = Skipped
		}
		r.note(v, "accounts", "", "cannot be listed: %v", err)
		return
	}
	if len(list.Items) == 0 {
		r.note(OK, "accounts", "", "there are none yet")
	}
	for i := range list.Items {
		r.account(&list.Items[i])
	}
}

func (r *run) account(a *cloudv1.CloudProviderAccount) {
	about := "account " + a.Namespace + "/" + a.Name
	if c := meta.FindStatusCondition(a.Status.Conditions, cloudv1.ConditionReady); c == nil {
		r.note(Warn, about, "look whether a controller runs", "no controller has looked at it yet")
	} else if c.Status == metav1.ConditionFalse {
		r.note(Fail, about, "", "the controller says: %s", c.Message)
	} else {
		r.note(OK, about, "", "the controller says: %s", c.Message)
	}
	ref, regions := r.Place(a)
	if ref == nil || len(regions) == 0 {
		r.note(Skipped, about+" credentials", "", "only accounts with a Secret and a region can be tried")
		return
	}
	var secret corev1.Secret
	if err := r.Client.Get(r.ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, &secret); err != nil {
		v, do := Fail, "create the Secret"
		if apierrors.IsForbidden(err) {
			v, do = Skipped, "run this as a user who may get it"
		}
		r.note(v, about+" credentials", do, "the Secret %s/%s cannot be read", ref.Namespace, ref.Name)
		return
	}
	opened, err := r.Open(a, secret.Data[ref.Key])
	if err != nil {
		r.note(Fail, about+" credentials", "", "%v", err)
		return
	}
	used := r.networks(a)
	for _, region := range regions {
		r.region(about+" "+region, cloud.Scope{Account: cloud.AccountKey(a.Namespace, a.Name), Region: region}, opened, used)
	}
}

// networks are the VPCs in which VMs of the account are imported: rights may be given for these
// only.
func (r *run) networks(a *cloudv1.CloudProviderAccount) map[string]bool {
	var vms cloudv1.VirtualMachineList
	out := map[string]bool{}
	for next := ""; ; {
		if err := r.Client.List(r.ctx, &vms, client.Limit(500), client.Continue(next),
			client.MatchingLabels{cloudv1.LabelCPANamespace: a.Namespace, cloudv1.LabelCPAName: a.Name}); err != nil {
			return out
		}
		for i := range vms.Items {
			out[vms.Items[i].Status.CloudVpcId] = true
		}
		if next = vms.Continue; next == "" {
			return out
		}
	}
}

func (r *run) region(about string, s cloud.Scope, a Account, used map[string]bool) {
	snap, readErr := a.Observe(r.ctx, s)
	on := snap
	if snap != nil && len(used) > 0 {
		narrow := *snap
		narrow.Networks = slices.DeleteFunc(slices.Clone(snap.Networks), func(n cloud.Network) bool { return !used[n.ID] })
		narrow.Interfaces = slices.DeleteFunc(slices.Clone(snap.Interfaces), func(n cloud.Interface) bool { return !used[n.NetworkID] })
		narrow.Groups = slices.DeleteFunc(slices.Clone(snap.Groups), func(g cloud.Group) bool { return !used[g.NetworkID] })
		on = &narrow
	}
	before := r.Now()
	probed, err := a.Probe(r.ctx, s, on)
	if err != nil {
		r.note(Fail, about, "look at the Secret of the account, and at its endpoint", "the credentials are not accepted: %v", err)
		return
	}
	if !probed.CloudTime.IsZero() {
		r.clock(about+" clock", probed.CloudTime, before, probed.LocalTime)
	}
	var denied, untried []string
	allowed := 0
	for _, t := range probed.Trials {
		switch text := strings.TrimSpace(t.Action + " " + preposition(t.On)); {
		case t.Denied:
			denied = append(denied, text)
		case t.Untried != "":
			untried = append(untried, text+": "+t.Untried)
		default:
			allowed++
		}
	}
	switch {
	case len(denied) > 0:
		r.note(Fail, about+" rights", "give the rights that nephele iam-policy (AWS) or nephele azure-role (Azure) prints; for mode plan the rights to read are enough", "denied: %s", strings.Join(denied, ", "))
	case readErr != nil:
		r.note(Fail, about, "", "cannot be read: %v", readErr)
	default:
		r.note(OK, about+" rights", "", "all %d that were tried are there", allowed)
	}
	if snap != nil {
		r.services(about+" services", snap)
	}
	for _, u := range untried {
		r.note(Skipped, about+" rights", "", "%s", u)
	}
	if limits, err := a.Limits(r.ctx, s); err == nil && snap != nil {
		r.quotas(about+" quotas", snap, limits)
	}
}

// services says what of native services cannot be read: nothing else fails for want of these
// rights.
func (r *run) services(about string, snap *cloud.Snapshot) {
	for _, f := range snap.ServiceFaults {
		do := "look at it again later"
		if cloud.ClassOf(f.Err) == cloud.Auth {
			do = "give the right " + f.Right + ", or do without"
		}
		r.note(Warn, about, do, "%s cannot be read: %v", f.API, f.Err)
	}
	if len(snap.ServiceFaults) == 0 && len(snap.Services) > 0 {
		r.note(OK, about, "", "all %d are read", len(snap.Services))
	}
}

func preposition(on string) string {
	if on == "" {
		return ""
	}
	return "on " + on
}

// quotas compares the quotas that the account is planned with with what there is. More than a quota
// allows means that the quota is another one.
func (r *run) quotas(about string, snap *cloud.Snapshot, l cloud.Limits) {
	if l.WholeGroups { // of Azure's limits only a region's are quotas that can be raised
		if have := snap.CountedGroups(); have*100 >= l.GroupsPerRegion*full {
			r.note(Warn, about, "have the limits of the subscription raised, then set spec.azureConfig.quotas", "%d of %d groups in the region are used", have, l.GroupsPerRegion)
		} else {
			r.note(OK, about, "", "%d of %d groups in the region", have, l.GroupsPerRegion)
		}
		return
	}
	rules, groups, all := 0, 0, snap.CountedGroups()
	byID := map[string]*cloud.Group{}
	for i := range snap.Groups {
		byID[snap.Groups[i].ID] = &snap.Groups[i]
		if snap.Groups[i].View {
			continue // it is what another group means to one interface
		}
		n := map[string]int{}
		for _, rule := range snap.Groups[i].Rules {
			family := "4"
			if rule.Peer.CIDR.Addr().Is6() {
				family = "6"
			}
			n[string(rule.Direction)+family]++
		}
		for _, count := range n {
			rules = max(rules, count)
		}
	}
	for i := range snap.Interfaces {
		groups = max(groups, len(cloud.Deciding(snap.Interfaces[i].GroupIDs, func(id string) *cloud.Group { return byID[id] })))
	}
	verdict := OK
	for _, q := range []struct {
		name        string
		have, limit int
		code, note  string
	}{
		{"rules in a group and direction", rules, l.RulesPerGroup, "L-0EA8095F", "spec.awsConfig.quotas.rulesPerGroup"},
		{"groups on an interface", groups, l.GroupsPerInterface, "L-2AFB9258", "spec.awsConfig.quotas.groupsPerInterface"},
		{"groups in the region", all, l.GroupsPerRegion, "L-E79EC296", "spec.awsConfig.quotas.groupsPerRegion"},
	} {
		switch {
		case q.limit <= 0:
		case q.have > q.limit:
			verdict = Warn
			r.note(Warn, about, "set "+q.note+" to the quota "+q.code+" of the account", "there are %d %s, more than the quota %d that is planned with", q.have, q.name, q.limit)
		case q.have*100 >= q.limit*full && q.name == "groups in the region":
			verdict = Warn
			r.note(Warn, about, "have the quota "+q.code+" raised, then set "+q.note, "%d of %d %s are used", q.have, q.limit, q.name)
		}
	}
	if verdict == OK {
		r.note(
			OK,
			about,
			"",
			"at most %d of %d rules in a group, %d of %d groups on an interface, %d of %d groups in the region",
			rules,
			l.RulesPerGroup,
			groups,
			l.GroupsPerInterface,
			all,
			l.GroupsPerRegion,
		)
	}
}
