package join

import (
	"fmt"
	"strings"
)

// network is what the VPC CNI's daemon set does on every node that registers,
// as far as the kubelet sees: it brings the network's configuration once it runs.
const network = `apiVersion: v1
kind: ConfigMap
metadata: {name: network, namespace: kube-system}
data:
  10-lab.conflist: |
    {"cniVersion": "1.0.0", "name": "lab", "plugins": [
      {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false,
       "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.200.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: network, namespace: kube-system}
spec:
  selector: {matchLabels: {app: network}}
  template:
    metadata: {labels: {app: network}}
    spec:
      hostNetwork: true
      tolerations: [{operator: Exists}]
      terminationGracePeriodSeconds: 0
      containers:
      - name: network
        image: {busybox}
        imagePullPolicy: Never
        command: [sh, -c, "cp /from/10-lab.conflist /to/ && exec sleep 2147483647"]
        volumeMounts: [{name: from, mountPath: /from}, {name: to, mountPath: /to}]
      volumes:
      - {name: from, configMap: {name: network}}
      - {name: to, hostPath: {path: /etc/cni/net.d}}
`

// Network is the manifest of the cluster's network.
func Network() string { return strings.ReplaceAll(network, "{busybox}", BusyboxImage) }

// app is a pod with everything that a kubelet writes to the disk for one: a
// ConfigMap, a Secret, an emptyDir, a projected token, logs.
const app = `apiVersion: v1
kind: ConfigMap
metadata: {name: app}
data: {word: "{word}"}
---
apiVersion: v1
kind: Secret
metadata: {name: app}
stringData: {word: "{word}"}
---
apiVersion: v1
kind: Pod
metadata: {name: {name}, labels: {app: app}, annotations: {word: "{word}"}}
spec:
  terminationGracePeriodSeconds: 0
  nodeSelector: {kubernetes.io/hostname: "{host}"}
  containers:
  - name: app
    image: {busybox}
    imagePullPolicy: Never
    command: [sh, -c, "echo {word} from $(cat /config/word); cat /config/word > /scratch/word; exec sleep 2147483647"]
    env: [{name: WORD, value: "{word}"}]
    volumeMounts:
    - {name: config, mountPath: /config}
    - {name: secret, mountPath: /secret}
    - {name: scratch, mountPath: /scratch}
    - {name: token, mountPath: /token}
  volumes:
  - {name: config, configMap: {name: app}}
  - {name: secret, secret: {secretName: app}}
  - {name: scratch, emptyDir: {}}
  - name: token
    projected: {sources: [{serviceAccountToken: {path: token, audience: sts.amazonaws.com}}]}
`

// App is the manifest of a pod on a node, with a word that is in everything of
// it that reaches the node.
func App(pod string, node Node, word string) string {
	return strings.NewReplacer("{name}", pod, "{host}", node.Metadata.Labels["kubernetes.io/hostname"], "{word}", word, "{busybox}", BusyboxImage).Replace(app)
}

// Greeting is what the pod with that word logs first.
func Greeting(word string) string { return fmt.Sprintf("%s from %[1]s", word) }
