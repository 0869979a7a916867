package scenario

import (
	"fmt"
	"slices"
	"strings"
)

// labelName says which of podway's own programs a Pod is.
const (
	labelName     = "app.kubernetes.io/name"
	ingressProxy  = "podway-ingress"
	nodeAgent     = "podway-node"
	ingressObject = `apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: podway}
spec: {controller: podway.io/ingress}
---
apiVersion: v1
kind: Pod
metadata: {name: podway-ingress, namespace: kube-system, labels: {app.kubernetes.io/name: podway-ingress}}
spec: {containers: [{name: ingress, ports: [{name: http, containerPort: 8080}, {name: https, containerPort: 8443}]}]}
---
apiVersion: v1
kind: Service
metadata: {name: podway-ingress, namespace: kube-system, labels: {app.kubernetes.io/name: podway-ingress}}
spec:
  type: LoadBalancer
  loadBalancerClass: podway.io/lb
  externalTrafficPolicy: Local
  selector: {app.kubernetes.io/name: podway-ingress}
  ports: [{name: http, port: 80, targetPort: http}, {name: https, port: 443, targetPort: https}]
status: {loadBalancer: {ingress: [{ip: 10.90.0.100}]}}
`
)

// addIngressProxy gives the first file with an Ingress podway's ingress proxy, its class and its Service, as
// deploy/50-ingress.yaml does, unless the file brings one of them itself. Later files may delete them.
func (o *objects) addIngressProxy() error {
	hasIngress := func(k string) bool { return strings.HasPrefix(k, "Ingress ") }
	if o.hasProxy || !slices.ContainsFunc(o.order, hasIngress) {
		return nil
	}
	o.hasProxy = true
	for _, d := range split([]byte(ingressObject)) {
		var doc map[string]any
		if err := unmarshal(d.text, &doc); err != nil {
			return fmt.Errorf("ingress proxy: %w", err)
		}
		key, err := keyOf(doc)
		if err != nil {
			return fmt.Errorf("ingress proxy: %w", err)
		}
		if _, own := o.docs[key]; !own {
			o.docs[key] = doc
			o.order = append(o.order, key)
		}
	}
	return nil
}
