// Command cmd stands for a program of which images are made.
package main

import (
	"fmt"
	"os"

	"golang.org/x/term"
)

var version, revision string

func main() { fmt.Println(version, revision, term.IsTerminal(int(os.Stdout.Fd()))) }
