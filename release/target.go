package main

import "runtime"

// target is a system that the plugin is built for, in Go's spelling.
type target struct{ os, arch string }

func (t target) String() string { return t.os + "/" + t.arch }

// suffix is what executables end in.
func (t target) suffix() string {
	if t.os == "windows" {
		return ".exe"
	}
	return ""
}

// targets are the systems that people run Packer on.
func targets() []target {
	return []target{
		{"linux", "amd64"}, {"linux", "arm64"},
		{"darwin", "amd64"}, {"darwin", "arm64"},
		{"freebsd", "amd64"},
		{"windows", "amd64"}, {"windows", "arm64"},
	}
}

// checkTargets are one for each way in which systems differ: this machine's
// own, which can be run; another architecture; and the two systems whose
// sources differ from Linux's.
func checkTargets() []target {
	list := []target{own()}
	for _, t := range []target{{"linux", "arm64"}, {"darwin", "arm64"}, {"windows", "amd64"}} {
		if t != own() {
			list = append(list, t)
		}
	}
	return list
}

// own is the system this program runs on.
func own() target { return target{runtime.GOOS, runtime.GOARCH} }

// nodeArches are the architectures of nodes: the agent and the command are
// built for Linux on each.
func nodeArches() []string { return []string{"amd64", "arm64"} }
