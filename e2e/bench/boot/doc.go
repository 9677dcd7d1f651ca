// Package boot has eksnode init race the tool calls of a bootstrap.sh of Amazon
// Linux 2's kind: on the same machine, with the same metadata service and the
// same stand-ins for systemctl, containerd and the kubelet.
package boot
