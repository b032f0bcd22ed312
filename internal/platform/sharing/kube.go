package sharing

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
)

// The names in a Kube store.
const (
	// LabelSeat is on the Leases that are seats; its value is the group of replicas.
	LabelSeat = "nephele.io/seat"
	// annotations of a seat
	sequenceKey = "nephele.io/sequence"
	addressKey  = "nephele.io/address"
	pastKey     = "nephele.io/past"
	// keys of the table
	shardsKey = "shards"
	sumKey    = "sha256"
	notesKey  = "notes"
)

// Kube is a Store in a Kubernetes API: a Lease for each seat, and a ConfigMap for the table. They
// are there already where the process has no right to create them.
type Kube struct {
	Client    kubernetes.Interface
	Namespace string
	// Group begins the names of the Leases, and is the value of their label; ConfigMap is the
	// name of that of the table.
	Group, ConfigMap string
	// Count is how many seats are made where there are none.
	Count int
	// Lease is what is written into Leases for people.
	Lease time.Duration
	Clock clock.PassiveClock
}

// Seats implements Store.
func (k *Kube) Seats(ctx context.Context) ([]Seat, error) {
	leases := k.Client.CoordinationV1().Leases(k.Namespace)
	list, err := leases.List(ctx, metav1.ListOptions{LabelSelector: LabelSeat + "=" + k.Group})
	if err != nil {
		return nil, fmt.Errorf("list the Leases of the replicas: %w", err)
	}
	if len(list.Items) == 0 {
		for i := range k.Count {
			made, err := leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprintf("%s-%d", k.Group, i), Labels: map[string]string{LabelSeat: k.Group, "app.kubernetes.io/name": "nephele"}}}, metav1.CreateOptions{})
			if err != nil && !apierrors.IsAlreadyExists(err) {
				return nil, fmt.Errorf("make the Leases of the replicas: %w", err)
			}
			if err == nil {
				list.Items = append(list.Items, *made)
			}
		}
	}
	out := make([]Seat, 0, len(list.Items))
	for i := range list.Items {
		out = append(out, slotOf(&list.Items[i]))
	}
	slices.SortFunc(out, func(a, b Seat) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// slotOf reads a seat. A sequence that is not as it was written is another one than before, so it
// counts as if its process had just moved; one that cannot be read of a process that is gone leaves
// that one out, which then counts as gone only when that has been so for a lease.
func slotOf(l *coordinationv1.Lease) Seat {
	s := Seat{Name: l.Name, Version: l.ResourceVersion, Address: l.Annotations[addressKey]}
	if l.Spec.HolderIdentity != nil {
		s.Epoch = *l.Spec.HolderIdentity
	}
	s.Sequence, _ = strconv.ParseUint(l.Annotations[sequenceKey], 10, 64)
	for line := range strings.Lines(l.Annotations[pastKey]) {
		words := strings.Fields(line)
		if len(words) != 2 || len(s.Past) == maxPast {
			continue
		}
		if n, err := strconv.ParseUint(words[1], 10, 64); err == nil {
			s.Past = append(s.Past, Past{words[0], n})
		}
	}
	return s
}

// PutSeat implements Store.
func (k *Kube) PutSeat(ctx context.Context, s Seat) (string, error) {
	seconds := int32(k.Lease.Seconds())
	now := metav1.NewMicroTime(k.Clock.Now())
	l := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: s.Name, ResourceVersion: s.Version,
			Labels:      map[string]string{LabelSeat: k.Group, "app.kubernetes.io/name": "nephele"},
			Annotations: map[string]string{sequenceKey: strconv.FormatUint(s.Sequence, 10)}},
		Spec: coordinationv1.LeaseSpec{LeaseDurationSeconds: &seconds, RenewTime: &now},
	}
	if s.Epoch != "" {
		l.Spec.HolderIdentity = &s.Epoch
	}
	if s.Address != "" {
		l.Annotations[addressKey] = s.Address
	}
	var past strings.Builder
	for _, p := range s.Past {
		fmt.Fprintf(&past, "%s %d\n", p.Epoch, p.Sequence)
	}
	if past.Len() > 0 {
		l.Annotations[pastKey] = past.String()
	}
	written, err := k.Client.CoordinationV1().Leases(k.Namespace).Update(ctx, l, metav1.UpdateOptions{})
	if err != nil {
		return "", overtaken(err)
	}
	return written.ResourceVersion, nil
}

// tableOf reads a table: a line for each shard, with its holder, the term, the holder before, and
// whether that one gave it up in order; and a line for each note. A table that a person or a defect
// has changed might call a shard free that a replica holds. So a table that is not as it was
// written is not trusted, except for its notes: they can only keep processes from working.
func tableOf(cm *corev1.ConfigMap) Table {
	t := Table{Version: cm.ResourceVersion, Notes: map[string]string{}}
	for line := range strings.Lines(cm.Data[notesKey]) {
		if words := strings.Fields(line); len(words) == 2 {
			t.Notes[words[0]] = words[1]
		}
	}
	t.Unknown = cm.Data[sumKey] != sum(cm.Data[shardsKey])
	for line := range strings.Lines(cm.Data[shardsKey]) {
		words := strings.Fields(line)
		if len(words) != 4 {
			t.Unknown = true
			break
		}
		s := Shard{Holder: unquote(words[0]), Before: unquote(words[2])}
		var termErr, orderErr error
		s.Term, termErr = strconv.ParseUint(words[1], 10, 64)
		s.InOrder, orderErr = strconv.ParseBool(words[3])
		t.Unknown = t.Unknown || termErr != nil || orderErr != nil
		t.Shards = append(t.Shards, s)
	}
	if t.Unknown {
		t.Shards = nil
	}
	return t
}

// sum shows whether the lines of the shards are as they were written.
func sum(lines string) string {
	digest := sha256.Sum256([]byte(lines))
	return hex.EncodeToString(digest[:])
}

// No one is written as "-".
func quote(epoch string) string {
	if epoch == "" {
		return "-"
	}
	return epoch
}

func unquote(word string) string { return strings.TrimPrefix(word, "-") }

// Table implements Store.
func (k *Kube) Table(ctx context.Context) (Table, error) {
	cm, err := k.Client.CoreV1().ConfigMaps(k.Namespace).Get(ctx, k.ConfigMap, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return Table{Unknown: true}, nil
	}
	if err != nil {
		return Table{}, fmt.Errorf("read ConfigMap %s/%s: %w", k.Namespace, k.ConfigMap, err)
	}
	return tableOf(cm), nil
}

// PutTable implements Store.
func (k *Kube) PutTable(ctx context.Context, t Table) (string, error) {
	var shards, notes strings.Builder
	for _, s := range t.Shards {
		fmt.Fprintf(&shards, "%s %d %s %t\n", quote(s.Holder), s.Term, quote(s.Before), s.InOrder)
	}
	for _, key := range slices.Sorted(maps.Keys(t.Notes)) {
		fmt.Fprintf(&notes, "%s %s\n", key, t.Notes[key])
	}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: k.ConfigMap, ResourceVersion: t.Version,
		Labels: map[string]string{"app.kubernetes.io/name": "nephele"}}, Data: map[string]string{notesKey: notes.String()}}
	if !t.Unknown {
		cm.Data[shardsKey], cm.Data[sumKey] = shards.String(), sum(shards.String())
	}
	maps := k.Client.CoreV1().ConfigMaps(k.Namespace)
	write := func() (*corev1.ConfigMap, error) { return maps.Update(ctx, cm, metav1.UpdateOptions{}) }
	if t.Version == "" {
		write = func() (*corev1.ConfigMap, error) { return maps.Create(ctx, cm, metav1.CreateOptions{}) }
	}
	written, err := write()
	if err != nil {
		return "", overtaken(err)
	}
	return written.ResourceVersion, nil
}

// overtaken classifies the error of a write.
func overtaken(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
		return fmt.Errorf("%w: %w", ErrOvertaken, err)
	}
	return err
}
