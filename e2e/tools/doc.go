// Package tools gets the programs that the project's tests and images need and
// Debian does not package: packer and its amazon plugin for the machine that
// runs the tests; kubelet, ecr-credential-provider, kubeadm, kube-bench,
// critest and the CNI plugins for the node; etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler and kubectl for the clusters that
// nodes join.
//
// Each tool is the publisher's release, verified with the publisher's checksum
// file, if the publisher's site sends that file within three seconds. Otherwise
// the tool is built from its Go module, from the Go module proxy, verified by
// the checksum database. A release that differs from its checksum is an error.
//
// Releases and builds are kept below os.UserCacheDir()/eksnode/tools under
// name, version and architecture. Two processes never get the same tool twice:
// the second waits for the first.
package tools
