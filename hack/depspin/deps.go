//go:build depspin

// Package depspin keeps modules in go.mod until the package that serves the computed objects as an aggregated API imports them. The build
// tag is never set.
package depspin

import (
	_ "github.com/prometheus/client_golang/prometheus"
	_ "k8s.io/apiserver/pkg/server"
	_ "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)
