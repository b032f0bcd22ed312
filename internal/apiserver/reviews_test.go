package apiserver_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/apiserver"
	"github.com/nephele-io/nephele/internal/apiserver/stats"
	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
)

// oracle answers a FlowReview with what the caller may see, and holds those about "slow" until it
// is told to go on.
type oracle struct {
	begun, goOn chan struct{}
}

type senseless struct{ error }

func (senseless) WrongQuestion() {}

func (o *oracle) Review(ctx context.Context, review runtime.Object, sight apiserver.Sight) error {
	r, ok := review.(*v1alpha1.FlowReview)
	if !ok {
		return nil
	}
	switch r.Spec.From {
	case "nonsense":
		return senseless{errors.New("spec.from: nonsense")}
	case "fault":
		panic("a mistake in an answer")
	case "early":
		return watchstore.ErrNotReady
	case "slow":
		o.begun <- struct{}{}
		select {
		case <-o.goOn:
		case <-ctx.Done():
		}
	case "broad":
		for i := range 1100 {
			sight.Namespace(fmt.Sprint("n", i))
		}
	}
	r.Status.Verdict = fmt.Sprintf("all %t, cluster %t, mine %t, theirs %t", sight.All, sight.Cluster, sight.Namespace("mine"), sight.Namespace("theirs"))
	return nil
}

// inNamespace lets user-a see the Namespace mine, user-b all of them, user-c the cluster as well,
// and cannot say what user-d may.
func inNamespace(asked *atomic.Int64) authorizer.AuthorizerFunc {
	return func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		name := a.GetUser().GetName()
		if name == "agent" {
			return authorizer.DecisionAllow, "", nil
		}
		if a.GetVerb() == "create" {
			if name == "user-x" {
				return authorizer.DecisionNoOpinion, "", nil
			}
			return authorizer.DecisionAllow, "", nil
		}
		asked.Add(1)
		allowed := map[string]bool{
			"user-a networkpolicies mine": true, "user-b networkpolicies ": true, "user-c networkpolicies ": true, "user-c clusternetworkpolicies ": true,
		}
		switch {
		case a.GetAPIGroup() != "crd.antrea.io" || a.GetVerb() != "list":
			return authorizer.DecisionDeny, "", nil
		case name == "user-d":
			return authorizer.DecisionNoOpinion, "", errors.New("nobody answers")
		case allowed[name+" "+a.GetResource()+" "+a.GetNamespace()]:
			return authorizer.DecisionAllow, "", nil
		}
		return authorizer.DecisionNoOpinion, "", nil
	}
}

func newReviewWorld(t *testing.T) (*world, *oracle, *atomic.Int64) {
	t.Helper()
	o, asked, access := &oracle{make(chan struct{}), make(chan struct{})}, new(atomic.Int64), tokenAccess()
	access.Authorizer = inNamespace(asked)
	w := &world{store: watchstore.New(watchstore.Options{}), reports: &reportBook{}, dir: t.TempDir(), reviews: o, book: stats.New(clock.RealClock{}), access: &access}
	w.start(t, "127.0.0.1:0")
	w.store.Publish(watchstore.Changes{})
	return w, o, asked
}

// reviewFlow asks about a flow from somewhere, as a user.
func reviewFlow(t testing.TB, w *world, user, from string) (*v1alpha1.FlowReview, error) {
	t.Helper()
	return reviewFlowWithin(t.Context(), t, w, user, from)
}

func reviewFlowWithin(ctx context.Context, t testing.TB, w *world, user, from string) (*v1alpha1.FlowReview, error) {
	t.Helper()
	config := w.config(user, runtime.ContentTypeJSON)
	gv := v1alpha1.GroupVersion()
	config.GroupVersion = &gv
	c, err := rest.RESTClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	var out v1alpha1.FlowReview
	err = c.Post().MaxRetries(0).Resource("flowreviews").Body(&v1alpha1.FlowReview{Spec: v1alpha1.FlowReviewSpec{From: from}}).Do(ctx).Into(&out)
	return &out, err
}

// TestReviewsShowWhatMayBeRead: an answer has what the caller may list, and a caller of unknown
// rights gets none.
func TestReviewsShowWhatMayBeRead(t *testing.T) {
	t.Parallel()
	w, _, asked := newReviewWorld(t)
	for user, want := range map[string]string{
		"user-a": "all false, cluster false, mine true, theirs false",
		"user-b": "all false, cluster false, mine true, theirs true",
		"user-c": "all true, cluster true, mine true, theirs true",
		"user-e": "all false, cluster false, mine false, theirs false",
	} {
		got, err := reviewFlow(t, w, user, "")
		if err != nil || got.Status.Verdict != want {
			t.Errorf("%s: %q, %v, want %q", user, got.Status.Verdict, err, want)
		}
	}
	if _, err := reviewFlow(t, w, "user-d", ""); err == nil {
		t.Error("an answer although it is not known what the caller may see")
	}
	if _, err := reviewFlow(t, w, "user-x", ""); !apierrors.IsForbidden(err) {
		t.Errorf("a user without the right to create reviews: %v", err)
	}
	if _, err := reviewFlow(t, w, "user-c", "nonsense"); !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "spec.from") {
		t.Errorf("a wrong question: %v", err)
	}
	if _, err := reviewFlow(t, w, "user-c", "early"); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("before anything is computed: %v", err)
	}
	if _, err := reviewFlow(t, w, "user-c", "fault"); !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), "a mistake in an answer") {
		t.Errorf("an answer that panics: %v", err)
	}
	asked.Store(0)
	if _, err := reviewFlow(t, w, "user-a", "broad"); err != nil || asked.Load() > 1002 {
		t.Errorf("%d questions about one review: %v", asked.Load(), err)
	}
}

// TestReviewsAreBounded: of one user so many reviews wait and one is worked on, others get their
// turn, and users that may see everything have one of their own.
func TestReviewsAreBounded(t *testing.T) {
	t.Parallel()
	w, o, _ := newReviewWorld(t)
	ended := make(chan error, 5)
	slow := func(user string) {
		_, err := reviewFlow(t, w, user, "slow")
		for apierrors.IsTooManyRequests(err) { // the one below was there first
			time.Sleep(20 * time.Millisecond) // each try is a connection
			_, err = reviewFlow(t, w, user, "slow")
		}
		ended <- err
	}
	for range 4 {
		go slow("user-a")
	}
	<-o.begun
	eventually(t, "a fifth review of one user is refused", func() error {
		// While the first four are not all there, this one waits for its turn.
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := reviewFlowWithin(ctx, t, w, "user-a", "slow"); !apierrors.IsTooManyRequests(err) {
			return fmt.Errorf("got %v", err)
		}
		return nil
	})
	go slow("user-b")
	<-o.begun // though four others came first
	if _, err := reviewFlow(t, w, "user-c", ""); err != nil {
		t.Errorf("while two users keep the turns, the review of a user that may see everything: %v", err)
	}
	go func() {
		for {
			select {
			case <-o.begun:
			case <-t.Context().Done():
				return
			}
		}
	}()
	close(o.goOn)
	for range 5 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
