// Package kubelet knows what kubelets accept: feature gates, flags, and the rules with
// which a kubelet validates its configuration when it starts.
//
// The rules follow ValidateKubeletConfiguration of k8s.io/kubernetes. That module is too
// large to be linked. So `make kubelet` builds a program from it for each minor version,
// has that program judge the configurations of the tests, and writes gates.txt, flags.txt
// and testdata/verdicts.txt. A test compares the rules with the verdicts.
package kubelet

// Oldest and Newest are the minor versions of Kubernetes 1 between which the rules apply.
const (
	Oldest = 32
	Newest = 37
)
