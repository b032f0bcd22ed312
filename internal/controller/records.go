package controller

import (
	"crypto/rand"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/internal/cloud/recordkey"
)

// recordKey keeps the key by which records of former groups are signed, in a Secret beside the
// controller. c must not read Secrets from a cache.
func recordKey(c client.Client, clusterID string, clk clock.Clock, o Options) *recordkey.Key {
	return recordkey.New(recordkey.Options{
		Client: c, Namespace: APINamespace, ClusterID: clusterID, Random: rand.Reader, Clock: clk, Log: o.Log.WithName("records"),
	})
}
