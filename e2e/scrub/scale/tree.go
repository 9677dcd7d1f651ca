package scale

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// A pod leaves about 100 files behind: what the kubelet writes for it, a
// service account's token, a ConfigMap, and an emptyDir that the pod used as
// its scratch space; besides, its logs and its network's lease.
const (
	filesPerPod    = 100
	scratchFolders = 8
	scratchFiles   = 10
)

// rules are those that take all of it away.
var rules = []string{"kubelet-pods", "pod-logs", "cni-state"}

// targets are the same paths for rm, relative to the root, as globs.
var targets = []string{"var/lib/kubelet/pods/*", "var/log/pods/*", "var/lib/cni/*"}

// Generate lays the state of so many files' worth of pods below root, and what
// a scrub needs to know the system. It returns how many entries a scrub has to
// remove, folders and links too.
func Generate(root string, files int) (entries int, err error) {
	for name, text := range map[string]string{
		"etc/os-release": "ID=debian\nVERSION_ID=\"12\"\n",
		"etc/passwd":     "root:x:0:0:root:/root:/bin/bash\n",
	} {
		if err := write(filepath.Join(root, name), text); err != nil {
			return 0, err
		}
	}
	pods := max(1, files/filesPerPod)
	for p := range pods {
		n, err := pod(root, p)
		if err != nil {
			return 0, fmt.Errorf("laying down pods: %w", err)
		}
		entries += n
	}
	return entries + 1, nil // var/lib/cni/results
}

// pod writes one pod's state and says how many entries it has.
func pod(root string, number int) (int, error) {
	uid := fmt.Sprintf("%08x-9b1c-4a57-8d2e-%012x", number*2654435761%(1<<32), number)
	dir := "var/lib/kubelet/pods/" + uid
	var names []string
	for _, n := range []string{
		"etc-hosts", "containers/app/5f3c1d2a", "containers/sidecar/0a9b8c7d", "plugins/kubernetes.io~empty-dir/wrapped_token/ready",
		"volumes/kubernetes.io~projected/token/..2024_01_01/token", "volumes/kubernetes.io~projected/token/..2024_01_01/ca.crt",
		"volumes/kubernetes.io~projected/token/..2024_01_01/namespace",
		"volumes/kubernetes.io~configmap/config/..2024_01_01/a.yaml", "volumes/kubernetes.io~configmap/config/..2024_01_01/b.yaml",
	} {
		names = append(names, dir+"/"+n)
	}
	for folder := range scratchFolders {
		for file := range scratchFiles {
			names = append(names, fmt.Sprintf("%s/volumes/kubernetes.io~empty-dir/scratch/%02d/part-%05d.tmp", dir, folder, file))
		}
	}
	log := "var/log/pods/default_app-" + uid
	names = append(names, log+"/app/0.log", log+"/app/1.log", log+"/sidecar/0.log", "var/lib/cni/results/cbr0-"+uid+"-eth0")
	links := map[string]string{
		dir + "/volumes/kubernetes.io~projected/token/..data":  "..2024_01_01",
		dir + "/volumes/kubernetes.io~projected/token/token":   "..data/token",
		dir + "/volumes/kubernetes.io~projected/token/ca.crt":  "..data/ca.crt",
		dir + "/volumes/kubernetes.io~configmap/config/..data": "..2024_01_01",
	}
	below := map[string]bool{} // folders that go
	for _, n := range names {
		if err := write(filepath.Join(root, n), "state of the old cluster\n"); err != nil {
			return 0, err
		}
		for d := filepath.Dir(n); strings.Contains(d, uid); d = filepath.Dir(d) {
			below[d] = true
		}
	}
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			return 0, err
		}
	}
	return len(names) + len(links) + len(below), nil
}

func write(name, text string) error {
	err := os.WriteFile(name, []byte(text), 0o600)
	if os.IsNotExist(err) {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		err = os.WriteFile(name, []byte(text), 0o600)
	}
	return err
}
