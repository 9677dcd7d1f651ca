// Package tools gets the programs that the project's own tests and images need
// and that no Debian package has: packer and its amazon plugin for the machine
// that runs the tests; kubelet, ecr-credential-provider, kubeadm, kube-bench,
// critest and the CNI plugins for the node; etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler and kubectl for the clusters that
// nodes join.
//
// Each is the publisher's release, compared with the publisher's checksum file,
// where its site sends that file within three seconds. Elsewhere it is built
// from its Go module, as the Go module proxy hands it out and the checksum
// database vouches for it. A release that differs from its checksum is an error.
//
// Both are kept below os.UserCacheDir()/eksnode/tools under name, version and
// architecture. Two processes never get the same thing twice: the second waits
// for the first.
package tools
