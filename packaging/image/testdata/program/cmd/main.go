// Command cmd stands for a program of which images are made.
package main

import (
	"fmt"
	"os"

	"golang.org/x/term"
)

var stampedVersion, stampedRevision string

func main() { fmt.Println(stampedVersion, stampedRevision, term.IsTerminal(int(os.Stdout.Fd()))) }
