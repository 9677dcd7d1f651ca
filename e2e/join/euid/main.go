// Command euid prints its effective user, for critest's specs of programs with
// the set-user-ID bit.
package main

import (
	"fmt"
	"os"
)

func main() { fmt.Printf("Effective uid: %d\n", os.Geteuid()) }
