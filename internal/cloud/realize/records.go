package realize

import (
	"context"
	"errors"
	"maps"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/plan"
)

// Records keeps the key by which records of former groups are signed, and which accounts have
// nothing but signed ones.
type Records interface {
	// Seal returns what the records of an account are signed and checked with; nil if they are
	// neither, because signing is not permitted there. It is lenient until Signed was called
	// for the account, and renewing until it was called with the current key.
	Seal(ctx context.Context, account string) (*plan.Seal, error)
	// Signed notes that all records of the account, in all its regions, were seen to be signed:
	// with the key that has this ID, or with some key of the list if it is empty. From then on
	// no unsigned one is believed.
	Signed(ctx context.Context, account, by string) error
	// Unsigned takes that back: a record of the account is about to be written without a
	// signature.
	Unsigned(ctx context.Context, account string) error
	// NotPermitted notes that the account's rights do not allow signatures.
	NotPermitted(account string)
}

// seal returns the seal of the account for one round.
func (w *worker) seal(ctx context.Context) (*plan.Seal, error) {
	if w.r.Records == nil {
		return nil, nil
	}
	s, err := w.r.Records.Seal(ctx, w.key)
	w.notSigned = s == nil && err == nil
	return s, err
}

// input is PlanInput with what only a realizer has.
func (w *worker) input(t task, regions []plan.Region) plan.Input {
	in := t.acct.PlanInput(w.r.ClusterID, t.want, regions)
	in.Seal = t.seal
	return in
}

// noteSigned tells that no record of the account is unsigned any more. A record that is not
// believed is none: it will not be believed later.
func (w *worker) noteSigned(ctx context.Context, t task, c computed) error {
	if t.seal.Settled() || t.acct.Releasing || c.result.Records.Unsigned+c.result.Records.Outdated > 0 || len(c.unread) > 0 || len(t.acct.Snapshots) < len(t.acct.Regions) {
		return nil
	}
	return w.r.Records.Signed(ctx, w.key, t.seal.KeyID)
}

// unsigned repeats an operation without the signature of records if the account's rights do not
// allow it, for they may be older than the tag: then what is known of former groups is as good as
// the tags, and enforcement goes on. Only rights count: what somebody has locked or guards against
// us must not switch signatures off. So the rest of the tags has to be allowed on the same
// interface, and then the signature still has to be refused.
func (e *execution) unsigned(ctx context.Context, s plan.Step, op cloud.Op, refused error) (string, error) {
	var why *cloud.Error
	if _, signs := op.Tags[cloud.TagSignature]; !signs || e.w.r.Records == nil || !errors.As(refused, &why) || !why.Denied {
		return "", refused
	}
	again := func(op cloud.Op) error {
		_, err := e.patiently(e.w.books.with(ctx, s, op), s.Scope, op)
		return err
	}
	rest, signature := op, op
	rest.Tags, signature.Tags = maps.Clone(op.Tags), map[string]string{cloud.TagSignature: op.Tags[cloud.TagSignature]}
	delete(rest.Tags, cloud.TagSignature)
	if len(rest.Tags) == 0 {
		rest.Kind, rest.Others, rest.Tags = cloud.OpTag, nil, e.recorded(s.Scope.Region, op.Target)
		signature.Others = nil // the other interfaces may be what is refused
	}
	if len(rest.Tags) == 0 {
		return "", refused
	}
	if err := e.w.r.Records.Unsigned(ctx, e.w.key); err != nil {
		return "", err
	}
	err := again(rest)
	if err != nil || again(signature) == nil {
		if e.task.seal != nil && !e.task.seal.Lenient {
			_ = e.w.r.Records.Signed(ctx, e.w.key, e.task.seal.By()) // as before; if this fails, it will be seen again that all are signed
		}
		if err != nil || len(signature.Others) < len(op.Others) {
			return "", refused
		}
		return op.Target, nil
	}
	e.w.r.Records.NotPermitted(e.w.key)
	e.w.r.Log.Info("RECORDS OF FORMER GROUPS ARE NOT SIGNED in this account: its rights do not allow the tag "+cloud.TagSignature, "account", e.w.key, "error", refused.Error())
	return op.Target, nil
}

// recorded is the first tag of the record of an interface, as it was observed.
func (e *execution) recorded(region, id string) map[string]string {
	if s := e.task.acct.Snapshots[region]; s != nil {
		if n := s.Interface(id); n != nil && n.Tags[cloud.TagFormer] != "" {
			return map[string]string{cloud.TagFormer: n.Tags[cloud.TagFormer]}
		}
	}
	return nil
}
