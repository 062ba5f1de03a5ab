/** Key of a service that was given none: it is not secret, because the service listens on the loopback by default. */
export const LOCAL_KEY = 'cus_local';
