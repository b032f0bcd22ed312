//go:build !linux

package main

import "github.com/nephele-io/nephele/internal/cli/agentcmd"

func sealing() *agentcmd.Sealing { return nil }
