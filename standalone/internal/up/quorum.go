package up

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/nephele-io/nephele/internal/status"
	"github.com/nephele-io/nephele/standalone/internal/controlplane"
)

// quorumPause is how often it is looked which processes answer.
const quorumPause = 10 * time.Second

// quorum tells "nephele status" which processes of a hub of several answer. The one whose database
// leads tells it, because it hears of all.
type quorum struct {
	kube    kubernetes.Interface
	dataDir string
	// several says that this is one of several; one that is alone takes back what was reported.
	several bool
	told    status.HubProcesses
}

func newQuorum(cfg *rest.Config, dataDir string, several bool) (*quorum, error) {
	kube, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("publish which process answers: %w", err)
	}
	return &quorum{kube: kube, dataDir: dataDir, several: several}, nil
}

// start tells until ctx ends or what it returns is called, which waits for that.
func (q *quorum) start(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			// What cannot be told now is tried again; that nothing is reported is reported by
			// status.
			if err := q.round(ctx); err == nil && !q.several {
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(quorumPause):
			}
		}
	})
	return func() { cancel(); running.Wait() }
}

// round looks once, and tells what is new.
func (q *quorum) round(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, quorumPause)
	defer cancel()
	maps := q.kube.CoreV1().ConfigMaps(status.HubNamespace)
	if !q.several {
		err := maps.Delete(ctx, status.HubName, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	peering, err := controlplane.OpenPeering(q.dataDir)
	if err != nil {
		return err
	}
	members, err := peering.Members(ctx)
	if err = errors.Join(err, peering.Close()); err != nil {
		return err
	}
	if !slices.ContainsFunc(members, func(m controlplane.Member) bool { return m.Asked && m.Leads }) {
		q.told = status.HubProcesses{} // another one tells
		return nil
	}
	now := status.HubProcesses{At: metav1.Now()}
	for _, m := range members {
		now.Processes = append(now.Processes, status.HubProcess{Name: m.Name, Peer: m.Peer, Counts: !m.Learner, Answers: m.Reached})
	}
	if slices.Equal(now.Processes, q.told.Processes) && now.At.Sub(q.told.At.Time) < status.HubPause {
		return nil
	}
	text, err := json.Marshal(now)
	if err != nil {
		return err
	}
	o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: status.HubNamespace, Name: status.HubName}, Data: map[string]string{status.HubKey: string(text)}}
	_, err = maps.Update(ctx, o, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = maps.Create(ctx, o, metav1.CreateOptions{})
	}
	if err == nil {
		q.told = now
	}
	return err
}
