package aws_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/aws"
	"github.com/nephele-io/nephele/internal/sim/ec2"
	"github.com/nephele-io/nephele/internal/sim/estate"
	"github.com/nephele-io/nephele/internal/sim/world"
)

// TestClockIsOff signs with a clock that the cloud does not accept: requests are valid for 15
// minutes. The cloud's answers say what time it is there, and the next attempt is signed with that.
func TestClockIsOff(t *testing.T) {
	t.Parallel()
	for _, off := range []time.Duration{-20 * time.Minute, 20 * time.Minute, 400 * 24 * time.Hour} {
		t.Run(off.String(), func(t *testing.T) {
			t.Parallel()
			state, _, err := estate.HybridCloud()
			if err != nil {
				t.Fatal(err)
			}
			w, err := world.New(state, world.Options{})
			if err != nil {
				t.Fatal(err)
			}
			theirs := func() time.Time { return time.Now().Add(off) }
			handler := ec2.NewHandler(ec2.Config{World: w, Clock: theirs, WallClock: theirs})
			server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				rw.Header().Set("Date", theirs().UTC().Format(http.TimeFormat))
				handler.ServeHTTP(rw, r)
			}))
			t.Cleanup(server.Close)
			p, err := aws.New(aws.Config{Region: region, Endpoint: server.URL, MaxAttempts: 3, MaxBackoff: time.Millisecond,
				Credential: v1alpha1.AWSCredential{AccessKeyID: estate.DefaultAccessKeyID, AccessKeySecret: estate.DefaultSecret}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := p.Observe(t.Context(), cloud.Scope{Account: "ns/account", Region: region}); err != nil {
				t.Errorf("read: %v", err)
			}
			if _, err := p.Apply(t.Context(), cloud.Scope{Account: "ns/account", Region: region}, ourGroup("a")); err != nil {
				t.Errorf("write: %v", err)
			}
		})
	}
}
