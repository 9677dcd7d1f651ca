// Command standin is what the machine's programs are in the race of the first
// boots: quick ones that succeed, so that what is measured is the contestants.
// It is whichever program it is called by the name of.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	args := os.Args[1:]
	switch filepath.Base(os.Args[0]) {
	case "systemctl":
		systemctl(args)
	case "kubelet":
		fmt.Println("Kubernetes v1.34.4")
	case "containerd":
		fmt.Println("containerd github.com/containerd/containerd v2.1.4")
	case "ctr":
		fmt.Println(strings.TrimPrefix(args[len(args)-1], "name=="))
	case "aws":
		fmt.Println("ip-10-0-1-2.eu-west-1.compute.internal")
	}
}

// systemctl knows which units were started on this machine.
func systemctl(args []string) {
	if slices.Contains(args, "show") {
		for _, unit := range args {
			if strings.HasSuffix(unit, ".service") {
				fmt.Printf("Id=%s\nLoadState=loaded\nActiveState=%s\nUnitFileState=disabled\nNeedDaemonReload=no\n\n", unit, state(unit))
			}
		}
	}
	if args[0] == "start" {
		if err := os.WriteFile("/run/started-"+args[1], nil, 0o644); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

func state(unit string) string {
	if _, err := os.Stat("/run/started-" + unit); err == nil {
		return "active"
	}
	return "inactive"
}
