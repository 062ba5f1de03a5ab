/** Default key of a service without keys. It is not secret: the service listens on the loopback by default. */
export const LOCAL_KEY = 'cus_local';
