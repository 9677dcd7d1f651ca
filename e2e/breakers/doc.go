// Package breakers proves that settings which the audit calls join breakers break real
// programs: containerd, runc, the CNI plugins and a kubelet without a cluster. Each
// setting is made in namespaces of the test, where the programs then fail for the
// reason that the audit's row gives. Without the setting, the message is not there.
package breakers
